import { defineConfig } from "vitest/config";

// Whole pages in a real browser. The pages are made first; without a browser or cargo every test is skipped with the
// reason.
export default defineConfig({
  test: {
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: "test/e2e/setup.ts",
    // A browser keeps more than one CPU busy at times, and less than one at others.
    maxWorkers: 2,
    // Only what hangs is meant to end here.
    testTimeout: 240_000,
    hookTimeout: 240_000,
  },
});
