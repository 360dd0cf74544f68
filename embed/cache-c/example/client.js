// Fetches URLs through the cache, in Node, with its own HTTP client: node client.js ADDON DIRECTORY URL...
// Each is answered by a line: status, where it came from, the body. addon.c says how the addon is built.
"use strict";

const http = require("node:http");
const [, , addon, directory, ...urls] = process.argv;
const thaw = require(addon);

const WAIT = 0, SERVE = 1, FORWARD = 2, STORE = 4, PASS = 5, FAIL = 6;
const BODY = 2, END = 3, STORED = 5;

// Who waits for the next event of which exchange.
const waiting = new Map();
const came = new Map();
const cache = thaw.open(directory, (tag, kind, action, bytes) => {
	const tell = waiting.get(tag);
	waiting.delete(tag);
	if (tell) tell({ kind, action, bytes });
	else came.set(tag, [...(came.get(tag) ?? []), { kind, action, bytes }]);
});

function next(tag) {
	const event = came.get(tag)?.shift();
	return event ? Promise.resolve(event) : new Promise((tell) => waiting.set(tag, tell));
}

function fetch({ method, url, fields }) {
	return new Promise((done, failed) => {
		const headers = {};
		for (let i = 0; i < fields.length; i += 2) headers[fields[i]] = fields[i + 1];
		const request = http.request(url, { method, headers }, (response) => {
			const parts = [];
			response.on("data", (part) => parts.push(part));
			response.on("error", failed);
			response.on("end", () => done({ status: response.statusCode, fields: response.rawHeaders, parts }));
		});
		request.on("error", failed);
		request.end();
	});
}

async function answer(exchange, tag) {
	let action = WAIT;
	let parts = [];
	while (action === WAIT || action === FORWARD) {
		if (action === WAIT) {
			action = (await next(tag)).action;
			continue;
		}
		try {
			const response = await fetch(thaw.forward(exchange));
			parts = response.parts;
			action = thaw.respond(exchange, response.status, response.fields);
		} catch {
			action = thaw.failed(exchange);
		}
	}
	if (action === FAIL) return `502 nowhere `;
	const { status } = thaw.head(exchange);
	let from = action === PASS ? "origin" : "cache";
	if (action === STORE) {
		for (const part of parts) thaw.write(exchange, part);
		thaw.finish(exchange);
		from = (await next(tag)).kind === STORED ? "stored" : "dropped";
	}
	if (action === SERVE) {
		from = "store";
		parts = [];
		thaw.read(exchange, 2 ** 40);
		for (;;) {
			const { kind, bytes } = await next(tag);
			if (kind === END) break;
			if (kind !== BODY) throw new Error("a stored body broke off");
			parts.push(bytes);
		}
	}
	return `${status} ${from} ${Buffer.concat(parts)}`;
}

async function main() {
	let tag = 0;
	for (const url of urls) {
		tag += 1;
		const exchange = thaw.ask(cache, "GET", url, [], tag);
		console.log(await answer(exchange, tag));
		thaw.free(exchange);
	}
	thaw.close(cache);
}

main();
