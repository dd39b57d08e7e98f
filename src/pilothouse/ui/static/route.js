// The fragment says what is shown: `#/object/apps/deployments/default/web?at=123`. So links, the back button and a
// second window show the same.

/** The view, its arguments, and the moment. */
export function route() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, query = ""] = text.split("?");
  const parts = path.split("/").map(decode);
  const parameters = new URLSearchParams(query);
  return { view: parts[0] || "cluster", parts: parts.slice(1), at: parameters.get("at") ?? "", q: parameters.get("q") ?? "" };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The fragment of a view at the moment that is shown now. */
export function href(view, parts = [], more = {}) {
  const query = new URLSearchParams({ at: route().at, ...more });
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  const path = [view, ...parts.map((part) => (part === "" ? "-" : encodeURIComponent(part)))].join("/");
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

/** The page of an object, by its key in the store. */
export function hrefOf(key) {
  const parts = key.split("/");
  return href("object", parts);
}

/** Another moment, the same view. */
export function goTo(at, { replace = false } = {}) {
  const text = location.hash.split("?")[0] || "#/cluster";
  const query = new URLSearchParams(location.hash.split("?")[1] ?? "");
  if (at) query.set("at", at);
  else query.delete("at");
  const url = `${text}${query.size ? `?${query}` : ""}`;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
