// The views of a trace, with their titles.

import type { View } from "../page.ts";
import { DiskView } from "./disk.tsx";
import { FileView } from "./file.tsx";
import { FilesView } from "./files.tsx";
import { ProcessesView } from "./processes.tsx";

export const TRACE_VIEWS = {
  disk: { title: "Disk", Content: DiskView },
  file: { title: "File", Content: FileView },
  files: { title: "Files", Content: FilesView },
  processes: { title: "Processes", Content: ProcessesView },
} as const satisfies Record<string, View>;
