// YAML of a JSON value, as kubectl prints it. Only for reading: what is ambiguous is quoted.

const PLAIN = /^[A-Za-z_/.][A-Za-z0-9_./ -]*$/;
const WORDS = /^(true|false|yes|no|on|off|null|y|n|~|\.inf|\.nan)$/i;
const NUMBER = /^[-+.]?[0-9]/;

export function yaml(value) {
  const out = [];
  if (isEmpty(value) || typeof value !== "object" || value === null) out.push(scalar(value));
  else write(value, "", out);
  return out.join("\n") + "\n";
}

function isEmpty(value) {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function write(value, indent, out) {
  if (Array.isArray(value)) {
    for (const item of value) {
      if (typeof item === "object" && item !== null && !isEmpty(item)) {
        const lines = [];
        write(item, `${indent}  `, lines);
        lines[0] = `${indent}- ${lines[0].slice(indent.length + 2)}`;
        out.push(...lines);
      } else {
        out.push(...entry(`${indent}- `, item, indent));
      }
    }
    return;
  }
  for (const [name, item] of Object.entries(value)) {
    const head = `${indent}${scalar(name)}:`;
    if (typeof item === "object" && item !== null && !isEmpty(item)) {
      out.push(head);
      write(item, Array.isArray(item) ? indent : `${indent}  `, out);
    } else {
      out.push(...entry(`${head} `, item, indent));
    }
  }
}

function entry(head, value, indent) {
  if (typeof value !== "string" || !value.includes("\n") || /[^\x20-\x7e\n\u00a0-\ud7ff\ue000-\ufffd]|(^|\n)[ \n]/.test(value)) {
    return [head + scalar(value)];
  }
  const ends = value.endsWith("\n");
  const lines = (ends ? value.slice(0, -1) : value).split("\n");
  return [`${head}|${ends ? "" : "-"}`, ...lines.map((line) => (line ? `${indent}  ${line}` : ""))];
}

function scalar(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "[]";
  if (typeof value === "object") return "{}";
  if (typeof value !== "string") return String(value);
  if (PLAIN.test(value) && !WORDS.test(value) && !NUMBER.test(value) && !value.endsWith(" ")) return value;
  return JSON.stringify(value);
}
