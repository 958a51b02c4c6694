// Numbers, times and bytes for people.

export const count = (n) => (n ?? 0).toLocaleString("en");

// some counts things.
export const some = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

// cut shows the beginning of what is long.
export const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, most)}… and ${count(text.length - most)} more`);

export function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
}

export function rate(n) {
  if (!n || n < 0.005) return "0";
  return n < 10 ? n.toFixed(2) : count(Math.round(n));
}

// span shows seconds.
export function span(seconds) {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

// short shows a duration or a rate as people write it: 1h0m0s is 1h.
export const short = (text) => text.replace(/([hm])0s$/, "$1").replace(/h0m$/, "h");

// fromNow shows a time as a distance.
export function fromNow(time) {
  const seconds = (new Date(time) - Date.now()) / 1000;
  return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

// joined are characters without a shape that make one picture of several: emoji, and the flags
// of England, Scotland and Wales.
const joined = /\p{Extended_Pictographic}[\ufe0f\p{Emoji_Modifier}]*(?:\u200d\p{Extended_Pictographic}[\ufe0f\p{Emoji_Modifier}]*)+|\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e0073}\u{e0063}\u{e0074}|\u{e0077}\u{e006c}\u{e0073})\u{e007f}/u;

const shapeless = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/u;

const either = new RegExp(`(${joined.source})|${shapeless.source}`, "gu");

// visible shows characters that have no shape, or that would change how others are shown.
export function visible(text) {
  return text.replace(either, (c, picture) => picture ? picture : c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : `‹U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

// beginning shows the first bytes of a payload on one line, as far as they are known; more is
// whether there are others.
export function beginning(base64, more) {
  const data = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data, { stream: more }).replace(/\s+/g, " ");
  } catch {
    text = `hex ${[...data.subarray(0, 24)].map((b) => b.toString(16).padStart(2, "0")).join(" ")}`;
    more ||= data.length > 24;
  }
  return visible(text) + (more ? "…" : "");
}

// payloadBytes are those of an item.
export function payloadBytes(item) {
  if (item.payload_base64 != null) return Uint8Array.from(atob(item.payload_base64), (c) => c.charCodeAt(0));
  return new TextEncoder().encode(item.payload ?? "");
}

// hex shows bytes like hexdump -C.
export function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = [...data.subarray(at, at + 16)];
    const codes = part.map((b) => b.toString(16).padStart(2, "0"));
    const text = part.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${codes.join(" ").padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

// headersOf are the headers of an item as pairs of texts.
export function headersOf(item) {
  const pairs = [];
  for (const [name, values] of Object.entries(item.headers ?? {})) {
    for (const value of values) pairs.push([name, value]);
  }
  for (const [name, values] of Object.entries(item.headers_base64 ?? {})) {
    for (const value of values) pairs.push([name, `base64 ${value}`]);
  }
  return pairs;
}

const deepest = 20; // levels that are indented: each line of a deep text would be as long as it is deep

// indent shows JSON on lines. Unlike reading and writing it, that keeps numbers as they are,
// names that occur twice, and their order.
export function indent(json) {
  const out = [];
  let depth = 0;
  const line = () => out.push(`\n${"  ".repeat(Math.min(depth, deepest))}`);
  const token = /"|[[\]{},:]|[^\s"[\]{},:]+/g;
  let opened = false; // nothing is between the brackets yet
  for (let found; (found = token.exec(json)); ) {
    const closes = found[0] === "]" || found[0] === "}";
    if (closes) depth--;
    if (opened !== closes) line();
    opened = false;
    switch (found[0]) {
      case '"': {
        let end = found.index + 1;
        while (json[end] !== '"') end += json[end] === "\\" ? 2 : 1;
        out.push(json.slice(found.index, end + 1));
        token.lastIndex = end + 1;
        break;
      }
      case "[": case "{":
        out.push(found[0]);
        depth++;
        opened = true;
        break;
      case ",":
        out.push(",");
        line();
        break;
      case ":":
        out.push(": ");
        break;
      default:
        out.push(found[0]);
    }
  }
  return out.join("");
}
