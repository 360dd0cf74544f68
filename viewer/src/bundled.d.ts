// `import TEXT from "worker:./file.ts"`: that file, bundled, as text; see build.mjs.
declare module "worker:*" {
  const text: string;
  export default text;
}
