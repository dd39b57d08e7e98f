// The time line: how much was written when, and a slider that puts the whole page there.

import { clock, duration, fill, h, say } from "./dom.js";
import { goTo, route } from "./route.js";

const WAIT = 150;

export class TimeLine {
  constructor(world, element, banner) {
    this.world = world;
    this.element = element;
    this.banner = banner;
    this.slider = h("input", { type: "range", id: "moment", min: "0", max: "0", step: "1", oninput: () => this.#slide() });
    this.canvas = h("canvas", { "aria-hidden": "true", height: "28" });
    this.label = h("output", { for: "moment" });
    this.now = h("button", { type: "button", text: "Now", onclick: () => this.leave() });
    this.from = h("span", { class: "from" });
    fill(element,
      h("label", { for: "moment", class: "hidden", text: "Moment" }),
      h("span", { class: "track" }, this.canvas, this.slider),
      h("span", { class: "ends" }, this.from, this.label, this.now));
    element.hidden = false;
    setInterval(() => this.draw(), 1000);
    this.draw();
  }

  get begins() {
    const now = Date.now() / 1000;
    return Math.max(this.world.marks[0]?.[0] ?? now, now - this.world.retention);
  }

  draw() {
    const now = Date.now() / 1000;
    const begins = this.begins;
    this.slider.min = Math.floor(begins);
    this.slider.max = Math.ceil(now);
    if (document.activeElement !== this.slider || !this.waiting) {
      this.slider.value = this.world.past ? this.world.past.time : Math.ceil(now);
    }
    this.#describe(this.world.past ? this.world.past.time : 0);
    say(this.from, `${duration(now - begins)} ago`);
    this.#drawActivity(begins, now);
  }

  #describe(time) {
    const ago = time ? `${clock(time)}, ${duration(Date.now() / 1000 - time)} ago` : "now";
    say(this.label, ago);
    this.slider.setAttribute("aria-valuetext", ago);
    this.now.hidden = !time && !route().at;
  }

  #drawActivity(begins, now) {
    const { canvas } = this;
    const width = canvas.clientWidth;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    const height = canvas.height;
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, canvas.width, height);
    pen.fillStyle = getComputedStyle(canvas).color;
    const columns = new Float64Array(Math.max(1, Math.floor(width / 3)));
    const { marks } = this.world;
    for (let i = 1; i < marks.length; i++) {
      const place = Math.floor(((marks[i][0] - begins) / Math.max(1, now - begins)) * columns.length);
      if (place >= 0 && place < columns.length) columns[place] += marks[i][1] - marks[i - 1][1];
    }
    const most = Math.log1p(Math.max(...columns, 1));
    columns.forEach((count, place) => {
      const tall = Math.ceil((Math.log1p(count) / most) * height);
      pen.fillRect(place * 3 * scale, height - tall, 2 * scale, tall);
    });
  }

  #slide() {
    const time = Number(this.slider.value);
    this.#describe(time);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.waiting = null;
      if (time >= Date.now() / 1000 - 1) this.leave();
      else goTo(new Date(time * 1000).toISOString().replace(/\.\d+/, ""), { replace: Boolean(route().at) });
    }, WAIT);
  }

  /** Some seconds back or forth. */
  step(seconds) {
    const from = this.world.past?.time ?? Math.floor(Date.now() / 1000);
    this.slider.value = Math.max(Math.ceil(this.begins), from + seconds);
    this.#slide();
  }

  leave() {
    clearTimeout(this.waiting);
    this.waiting = null;
    goTo("");
  }

  /** The banner, and everything else that says when. */
  announce(error = "") {
    const { past } = this.world;
    document.documentElement.classList.toggle("in-the-past", Boolean(past || error));
    this.banner.hidden = !past && !error;
    if (error) {
      fill(this.banner, h("strong", { text: `That moment cannot be shown: ${error} ` }), h("button", { type: "button", text: "Back to now", onclick: () => this.leave() }));
    } else if (past) {
      fill(this.banner, h("strong", { text: "In the past: " }), `${clock(past.time)}, resourceVersion ${past.revision}. `,
        h("button", { type: "button", text: "Back to now", onclick: () => this.leave() }));
    }
    this.draw();
  }
}
