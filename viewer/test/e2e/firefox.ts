// A page in Firefox, by the protocol that it brings itself (Marionette): what drives Chromium does not drive Debian's
// Firefox.

import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject, test } from "vitest";

const FIREFOX = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
/** Why nothing can be tested in Firefox; empty: it can. */
export const noFirefox =
  inject("cannot") !== "" ? inject("cannot") : existsSync(FIREFOX) ? "" : `no browser at ${FIREFOX}`;

/** A test that needs Firefox; where there is none it is skipped, and counted with the reason. */
export const inFirefox = noFirefox === "" ? test : test.skip;
if (noFirefox !== "" && process.env.THAW_SKIP_LOG !== undefined)
  appendFileSync(process.env.THAW_SKIP_LOG, `viewer end to end in Firefox: ${noFirefox}\n`);

/** The key Esc, as WebDriver calls it. */
export const ESCAPE = "\ue00c";

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

export class Firefox {
  private next = 1;
  private text = Buffer.alloc(0);
  private readonly waiting = new Map<number, (answer: readonly unknown[]) => void>();

  private constructor(
    private readonly process: ChildProcess,
    private readonly profile: string,
    private readonly socket: Socket,
  ) {
    socket.on("data", (data: Buffer | string) => this.hear(Buffer.from(data as Buffer)));
  }

  static async start(): Promise<Firefox> {
    const profile = mkdtempSync(join(tmpdir(), "thaw-firefox-"));
    // Any port that is free; Firefox writes down which.
    writeFileSync(join(profile, "user.js"), 'user_pref("marionette.port", 0);\n');
    const words = ["--headless", "--marionette", "--no-remote", "--profile", profile];
    const size = { MOZ_HEADLESS_WIDTH: "1280", MOZ_HEADLESS_HEIGHT: "900" };
    const env = { ...process.env, ...size, HOME: profile };
    const child = spawn(FIREFOX, words, { stdio: "ignore", env });
    const file = join(profile, "MarionetteActivePort");
    while (!existsSync(file) || readFileSync(file, "utf8").trim() === "") {
      if (child.exitCode !== null) throw new Error(`${FIREFOX} ended with exit code ${child.exitCode}`);
      await pause(50);
    }
    const socket = connect(Number(readFileSync(file, "utf8")), "127.0.0.1");
    const firefox = new Firefox(child, profile, socket);
    await firefox.ask("WebDriver:NewSession", {});
    return firefox;
  }

  /** `LENGTH:[1,ID,ERROR,RESULT]`, after a greeting. */
  private hear(data: Buffer): void {
    this.text = Buffer.concat([this.text, data]);
    for (;;) {
      const colon = this.text.indexOf(":");
      const length = Number(this.text.subarray(0, colon).toString());
      if (colon < 0 || this.text.length < colon + 1 + length) return;
      const message: unknown = JSON.parse(this.text.subarray(colon + 1, colon + 1 + length).toString());
      this.text = this.text.subarray(colon + 1 + length);
      if (Array.isArray(message)) this.waiting.get(Number(message[1]))?.(message);
    }
  }

  private async ask(command: string, what: unknown): Promise<unknown> {
    const id = this.next++;
    const answer = new Promise<readonly unknown[]>((done) => this.waiting.set(id, done));
    const text = JSON.stringify([0, id, command, what]);
    this.socket.write(`${Buffer.byteLength(text)}:${text}`);
    const [, , error, result] = await answer;
    this.waiting.delete(id);
    if (error !== null) throw new Error(`${command}: ${JSON.stringify(error)}`);
    return result;
  }

  async open(url: string): Promise<void> {
    await this.ask("WebDriver:Navigate", { url });
  }

  /** What an expression is in the page. */
  async value(expression: string): Promise<unknown> {
    const result = await this.ask("WebDriver:ExecuteScript", { script: `return (${expression});`, args: [] });
    return (result as { value: unknown }).value;
  }

  /** Waits until an expression holds in the page. */
  async until(expression: string): Promise<void> {
    while ((await this.value(`Boolean(${expression})`)) !== true) await pause(30);
  }

  async press(...keys: readonly string[]): Promise<void> {
    const actions = keys.flatMap((value) => [
      { type: "keyDown", value },
      { type: "keyUp", value },
    ]);
    await this.ask("WebDriver:PerformActions", { actions: [{ type: "key", id: "keys", actions }] });
  }

  async click(x: number, y: number): Promise<void> {
    const actions = [
      { type: "pointerMove", x: Math.round(x), y: Math.round(y), duration: 0 },
      { type: "pointerDown", button: 0 },
      { type: "pointerUp", button: 0 },
    ];
    const mouse = { type: "pointer", id: "mouse", parameters: { pointerType: "mouse" }, actions };
    await this.ask("WebDriver:PerformActions", { actions: [mouse] });
  }

  /** The window as a PNG. */
  async screenshot(): Promise<Buffer> {
    const result = await this.ask("WebDriver:TakeScreenshot", { full: false });
    return Buffer.from((result as { value: string }).value, "base64");
  }

  async stop(): Promise<void> {
    const ended = new Promise((done) => this.process.once("exit", done));
    await this.ask("Marionette:Quit", { flags: ["eForceQuit"] }).catch(() => this.process.kill());
    await ended;
    this.socket.destroy();
    rmSync(this.profile, { recursive: true, force: true });
  }
}
