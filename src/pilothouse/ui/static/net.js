// Requests to the server. A session is a cookie, which scripts don't see, and a key, which is kept for this origin.

const KEY = "pilothouse-key";

export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers() {
  return { "X-Pilothouse-Key": localStorage.getItem(KEY) ?? "" };
}

async function failure(response) {
  let message = response.statusText;
  try {
    message = (await response.json()).error ?? message;
  } catch {
    // Not ours: the status has to do.
  }
  return new Failed(response.status, message);
}

/** Exchange the token of a link for a session. */
export async function logIn(token) {
  const response = await fetch("api/login", { method: "POST", body: JSON.stringify({ token }) });
  if (!response.ok) throw await failure(response);
  localStorage.setItem(KEY, (await response.json()).key);
}

/** Data of the page. */
export async function get(path, query = {}, signal = undefined) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const response = await fetch(`api/${path}?${text}`, { headers: headers(), signal });
  if (!response.ok) throw await failure(response);
  return response.json();
}

/** Lines of JSON as they come, several at a time. */
export async function* lines(path, query, signal) {
  const response = await fetch(`api/${path}?${new URLSearchParams(query)}`, { headers: headers(), signal });
  if (!response.ok) throw await failure(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const texts = (rest + value).split("\n");
    rest = texts.pop();
    if (texts.length) yield texts.map((text) => JSON.parse(text));
  }
}
