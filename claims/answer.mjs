// How the origins of the claims that compare bytes answer: with 304, a part or the whole, with a length or without one,
// and once in a while with half of it.

const below = (n) => Math.floor(Math.random() * n);

/** Answers with `whole`, whose validator is `tag`; one of `broken` answers breaks off after its first half. */
export function answer(request, response, whole, tag, broken) {
  response.setHeader("etag", tag);
  if (request.headers["if-none-match"] === tag) {
    response.statusCode = 304;
    return response.end();
  }
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  let part = whole;
  if (range && (!request.headers["if-range"] || request.headers["if-range"] === tag)) {
    const [first, last] = [Number(range[1]), range[2] ? Math.min(Number(range[2]), whole.length - 1) : whole.length - 1];
    if (first >= whole.length) {
      response.statusCode = 416;
      response.setHeader("content-range", `bytes */${whole.length}`);
      return response.end();
    }
    response.statusCode = 206;
    response.setHeader("content-range", `bytes ${first}-${last}/${whole.length}`);
    part = whole.subarray(first, last + 1);
  }
  if (below(2)) response.setHeader("content-length", part.length);
  const half = part.length >> 1;
  response.write(part.subarray(0, half));
  const breaks = below(broken) === 0;
  setTimeout(() => (breaks ? response.destroy() : response.end(part.subarray(half))), below(5));
}
