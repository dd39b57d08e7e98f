// Objects of every kind by their names; and without a search, what kinds there are.

import { counted, fill, h, number, partsOf, say } from "./dom.js";
import { get } from "./net.js";
import { href, hrefOf } from "./route.js";

export class Search {
  title = "Search";

  constructor(world, parts, text) {
    this.world = world;
    this.text = text;
  }

  async mount(main) {
    this.summary = h("p", { class: "summary", role: "status", text: "Searching …" });
    this.list = h("ul", { class: "found" });
    fill(main, h("h1", { text: this.text ? `Search: ${this.text}` : "All kinds" }), this.summary, this.list);
    try {
      if (this.text) await this.#search();
      else await this.#kinds();
    } catch (error) {
      say(this.summary, error.message);
    }
  }

  update() {}

  async #search() {
    const { found, more } = await get("search", { q: this.text });
    const gone = found.filter((each) => each.gone).length;
    say(this.summary, `${more ? "The first " : ""}${counted(found.length - gone, "object")} with such a name${gone ? `, and ${number.format(gone)} that ${gone === 1 ? "was" : "were"} deleted` : ""}${more ? "; search for more of the name, or for a kind and a name" : ""}`);
    fill(this.list, found.map((each) => {
      const { namespace, name } = partsOf(each.key);
      return h("li", {}, h("span", { class: "kind", text: each.kind }), " ", h("a", { href: hrefOf(each.key), text: name }), " ",
        h("span", { class: "namespace", text: namespace }),
        each.gone ? h("span", { class: "note", text: " deleted" }) : null);
    }));
  }

  async #kinds() {
    const { kinds } = await get("kinds");
    say(this.summary, `${counted(kinds.length, "kind")} of objects ${kinds.length === 1 ? "is" : "are"} stored`);
    fill(this.list, kinds.map((each) => h("li", {},
      h("a", { href: href("search", [], { q: each.resource }), text: each.kind }),
      h("span", { class: "note", text: ` ${number.format(each.count)}${each.group ? `, ${each.group}` : ""}` }))));
  }
}
