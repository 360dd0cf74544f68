import { defineConfig } from "vitest/config";

// Pure logic, and the form of the sources: no browser, no built page.
export default defineConfig({ test: { include: ["test/{logic,house}/**/*.test.ts"] } });
