"use strict";
// A line through all pictures at the time that the pointer is over.
{
  const LEFT = 236, RIGHT = 1036, label = document.createElement("div");
  const plots = [...document.querySelectorAll("svg[data-begin]")].map((svg) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "cursor");
    line.setAttribute("y1", "0");
    line.setAttribute("y2", svg.viewBox.baseVal.height);
    svg.append(line);
    return { svg, line, begin: Number(svg.dataset.begin), end: Number(svg.dataset.end) };
  });
  label.className = "time";
  label.hidden = true;
  document.body.append(label);
  const text = (seconds) => {
    let rest = Math.abs(seconds), found = "";
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) {
      if (rest >= size) { found += Math.floor(rest / size) + unit; rest %= size; }
    }
    return (seconds < 0 ? "−" : "") + found + (Math.abs(seconds) < 60 ? rest.toFixed(1) : Math.floor(rest)) + "s";
  };
  const move = (plot, event) => {
    const box = plot.svg.getBoundingClientRect(), view = plot.svg.viewBox.baseVal;
    const x = view.x + (event.clientX - box.left) / box.width * view.width;
    const share = (x - LEFT) / (RIGHT - LEFT);
    const inside = share >= 0 && share <= 1;
    const at = plot.begin + share * (plot.end - plot.begin);
    label.hidden = !inside;
    for (const { line, begin, end } of plots) {
      // A comparison and the run below it have axes of their own.
      const its = (at - begin) / (end - begin);
      const place = inside && its >= 0 && its <= 1 ? LEFT + its * (RIGHT - LEFT) : -9;
      line.setAttribute("x1", place);
      line.setAttribute("x2", place);
    }
    label.textContent = text(at);
    label.style.left = Math.min(event.clientX + 12, innerWidth - 90) + "px";
    label.style.top = Math.max(event.clientY - 30, 4) + "px";
  };
  for (const plot of plots) {
    plot.line.setAttribute("x1", -9);
    plot.line.setAttribute("x2", -9);
    plot.svg.addEventListener("pointermove", (event) => move(plot, event));
    plot.svg.addEventListener("pointerleave", () => { label.hidden = true; });
  }
}
