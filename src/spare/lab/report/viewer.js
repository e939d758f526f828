// Transitions in 3-D on plain canvases: solids in the right order, shadows, expectations as ellipses, references as arrows.
(() => {
  const { dot, add, cross, mix, distance, prism, backToFront, hull } = Solids;
  const TIME = 1400, LETTERS = "600 13px system-ui, sans-serif";
  const PALETTES = {
    light: {
      sky: ["#f7f8fa", "#e9edf1"], ground: "#e9e5de", lines: "rgba(60,50,40,.10)", shade: "rgba(40,35,30,.17)",
      edge: "rgba(25,28,33,.55)", ink: "#23282f", halo: "rgba(255,255,255,.92)", before: "rgba(50,58,68,.6)",
      expect: [104, 44, 178], refer: "#0b6e4f", action: "#1a6bbf",
      solids: { acted: [227, 88, 52], moved: [246, 184, 80], other: [164, 180, 198] },
    },
    dark: {
      sky: ["#232a33", "#181d23"], ground: "#343c46", lines: "rgba(255,255,255,.07)", shade: "rgba(0,0,0,.34)",
      edge: "rgba(8,10,13,.75)", ink: "#e6eaef", halo: "rgba(20,24,29,.88)", before: "rgba(225,232,240,.6)",
      expect: [205, 165, 255], refer: "#6fdcb2", action: "#6db3ff",
      solids: { acted: [222, 92, 60], moved: [226, 170, 78], other: [120, 136, 155] },
    },
  };
  class View {
    constructor(figure) {
      this.scene = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
      this.figure = figure;
      this.canvas = figure.querySelector("canvas");
      this.pen = this.canvas.getContext("2d");
      this.at = 1; // the share of the way from before to after
      this.show = { prediction: true, references: true };
      this.paper = false;
      this.aim();
      this.controls(figure.querySelector(".controls"));
      this.listen();
      this.draw();
    }

    // The camera looks at what is acted on and what moves, from a distance at which all objects are in front of it.
    aim() {
      const { objects, arrow } = this.scene;
      const chief = objects.some((one) => one.role !== "other") ? objects.filter((one) => one.role !== "other") : objects;
      const bounds = (points) => [Math.min, Math.max].map((f) => [0, 1, 2].map((k) => f(...points.map((p) => p[k]))));
      const ends = chief.flatMap((one) => this.expected(one).filter((p) => p.probability > 0.05).map((p) => p.expected));
      const points = [...chief.flatMap((one) => [one.before, one.after]), ...ends, ...(arrow || []).slice(0, 1)];
      const [low, high] = bounds(points), size = Math.max(...chief.flatMap((one) => one.size));
      this.focus = mix(low, high, 0.5);
      this.reach = Math.max(0.5 * size, ...points.map((p) => distance(p, this.focus))) + 0.7 * size;
      this.step = 10 ** Math.floor(Math.log10(1.5 * this.reach)); // of the grid: 1 cm, 10 cm, 1 m
      const [west, east] = bounds(objects.flatMap((one) => [one.before, one.after]));
      this.low = west.map((v) => (Math.floor(v / this.step) - 1) * this.step);
      this.high = east.map((v) => (Math.ceil(v / this.step) + 1) * this.step);
      this.far = Math.max(6 * this.reach, 2 * distance(this.low, this.high));
      this.azimuth = (arrow ? Math.atan2(arrow[1][1] - arrow[0][1], arrow[1][0] - arrow[0][0]) : 0.4) - 2.0;
      this.elevation = 0.5;
      this.zoom = 1;
    }

    place(i) {
      const { before, after } = this.scene.objects[i];
      return mix(before, after, this.at);
    }

    solidAt(one, centre) {
      return { ...prism(one.size, centre, one.round), role: one.role };
    }

    // Camera: right, up and back make a basis; a point's depth is its distance along -back from the eye.
    look(width, height) {
      const c = Math.cos(this.elevation), a = this.azimuth;
      this.back = [c * Math.cos(a), c * Math.sin(a), Math.sin(this.elevation)];
      this.right = [-Math.sin(a), Math.cos(a), 0];
      this.up = cross(this.back, this.right);
      this.eye = add(this.focus, this.back, this.far);
      this.scale = (this.zoom * this.far * Math.min(width / 1.25, height)) / 2 / this.reach;
      this.middle = [width / 2, height / 2];
    }

    project(p) {
      const v = add(p, this.focus, -1), depth = this.far - dot(v, this.back), f = this.scale / depth;
      return [this.middle[0] + f * dot(v, this.right), this.middle[1] - f * dot(v, this.up), depth];
    }

    path(points) {
      this.pen.beginPath();
      points.forEach((p, k) => this.pen[k ? "lineTo" : "moveTo"](p[0], p[1]));
      this.pen.closePath();
    }

    draw() {
      const ratio = this.paper ? 3 : Math.min(3, window.devicePixelRatio || 1);
      const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
      if (!width || !height) return;
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      const dark = !this.paper && window.matchMedia("(prefers-color-scheme: dark)").matches;
      this.colours = PALETTES[dark ? "dark" : "light"];
      this.look(width, height);
      this.ground(width, height);
      const solids = this.scene.objects.map((one, i) => this.solidAt(one, this.place(i)));
      this.shadows(solids);
      if (this.scene.arrow) this.action();
      for (const one of backToFront(solids, this.eye, 0.008 * this.reach)) this.solid(one);
      if (this.at > 0.3) this.outlines();
      if (this.show.references) this.references();
      if (this.show.prediction) this.expectations();
      this.figure.dataset.drawn = "yes";
    }

    ground(width, height) {
      const { pen, colours, low, high, step } = this, sky = pen.createLinearGradient(0, 0, 0, height), z = this.scene.floor;
      sky.addColorStop(0, colours.sky[0]);
      sky.addColorStop(1, colours.sky[1]);
      pen.fillStyle = sky;
      pen.fillRect(0, 0, width, height);
      const at = (x, y) => this.project([x, y, z]);
      this.path([at(low[0], low[1]), at(high[0], low[1]), at(high[0], high[1]), at(low[0], high[1])]);
      pen.fillStyle = colours.ground;
      pen.fill();
      pen.strokeStyle = colours.lines;
      pen.lineWidth = 1;
      const line = (a, b) => { this.path([a, b]); pen.stroke(); };
      for (let x = low[0]; x < high[0] + step / 2; x += step) line(at(x, low[1]), at(x, high[1]));
      for (let y = low[1]; y < high[1] + step / 2; y += step) line(at(low[0], y), at(high[0], y));
    }

    shadows(solids) {
      const z = this.scene.floor;
      this.pen.fillStyle = this.colours.shade;
      for (const one of solids) {
        const flat = one.corners.map((c) => [c[0] + 0.35 * (c[2] - z), c[1] + 0.5 * (c[2] - z)]);
        this.path(hull(flat).map((p) => this.project([p[0], p[1], z])));
        this.pen.fill();
      }
    }

    solid(one) {
      const { pen, colours } = this, light = [-0.42, -0.55, 0.72], base = colours.solids[one.role];
      pen.lineJoin = "round";
      for (const { corners, normal } of one.faces) {
        if (dot(normal, add(this.eye, one.corners[corners[0]], -1)) <= 0) continue;
        const bright = 0.66 + 0.34 * Math.max(0, dot(normal, light)) + 0.1 * Math.max(0, normal[2]);
        this.path(corners.map((k) => this.project(one.corners[k])));
        pen.fillStyle = `rgb(${base.map((v) => Math.min(255, Math.round(v * bright))).join()})`;
        pen.fill();
        pen.strokeStyle = one.round && !normal[2] ? pen.fillStyle : colours.edge; // the sides of a cylinder have no edges
        pen.lineWidth = 0.9;
        pen.stroke();
      }
    }

    // The action as an arrow on the ground.
    action() {
      const [from, to] = this.scene.arrow, along = [to[0] - from[0], to[1] - from[1]], long = Math.hypot(...along) || 1;
      const d = along.map((v) => v / long), tip = Math.min(0.14 * this.reach, long / 2), w = 0.024 * this.reach;
      const at = (s, o) => this.project([from[0] + d[0] * s - d[1] * o, from[1] + d[1] * s + d[0] * o, this.scene.floor]);
      this.path([at(0, w), at(long - tip, w), at(long - tip, 3 * w), at(long, 0), at(long - tip, -3 * w),
        at(long - tip, -w), at(0, -w)]);
      this.pen.fillStyle = this.colours.action;
      this.pen.globalAlpha = 0.85;
      this.pen.fill();
      this.pen.globalAlpha = 1;
    }

    outlines() {
      const { pen } = this;
      pen.strokeStyle = this.colours.before;
      pen.lineWidth = 1.1;
      pen.setLineDash([4, 4]);
      for (const one of this.scene.objects.filter((o) => o.role !== "other" && distance(o.before, o.after) > 0)) {
        const solid = this.solidAt(one, one.before);
        for (const [a, b] of solid.edges) {
          this.path([this.project(solid.corners[a]), this.project(solid.corners[b])]);
          pen.stroke();
        }
      }
      pen.setLineDash([]);
    }

    references() {
      const { pen, colours } = this, names = new Map();
      this.scene.references.forEach(([from, to, name], k) => {
        const a = this.project(this.place(from)), b = this.project(this.place(to));
        const d = [b[0] - a[0], b[1] - a[1]], long = Math.hypot(...d) || 1;
        const bend = (0.34 + 0.1 * k) * long + 14, side = [-d[1] / long, d[0] / long];
        const sign = side[0] < 0 ? -1 : 1; // always to the right, so that labels stand apart from blocks
        const c = [(a[0] + b[0]) / 2 + sign * bend * side[0], (a[1] + b[1]) / 2 + sign * bend * side[1]];
        for (const [style, wide] of [[colours.halo, 5.5], [colours.refer, 2.4]]) {
          pen.strokeStyle = pen.fillStyle = style;
          pen.lineWidth = wide;
          pen.beginPath();
          pen.moveTo(a[0], a[1]);
          pen.quadraticCurveTo(c[0], c[1], b[0], b[1]);
          pen.stroke();
          const turn = Math.atan2(b[1] - c[1], b[0] - c[0]), r = wide > 3 ? 13 : 11;
          this.path([[b[0], b[1]], ...[-0.42, 0.42].map((o) => [b[0] - r * Math.cos(turn + o), b[1] - r * Math.sin(turn + o)])]);
          pen.fill();
        }
        const mark = `${name}:${from}`; // the same reference from the same object is named once, over all arrows
        if (!names.has(mark)) names.set(mark, [name, (a[0] + b[0] + 2 * c[0]) / 4 + 8, (a[1] + b[1] + 2 * c[1]) / 4]);
      });
      for (const [name, x, y] of names.values()) this.label(name, x, y, colours.refer);
    }

    label(text, x, y, colour) {
      const { pen } = this;
      pen.font = LETTERS;
      pen.textBaseline = "middle";
      pen.lineWidth = 4;
      pen.lineJoin = "round";
      pen.strokeStyle = this.colours.halo;
      pen.strokeText(text, x, y);
      pen.fillStyle = colour;
      pen.fillText(text, x, y);
    }

    // What may happen to an object, the least probable first; what is said of it as one, where there are no outcomes.
    expected(one) {
      if (!one.expected) return [];
      const apart = one.outcomes && one.outcomes.length ? one.outcomes : [{ ...one, probability: 1 }];
      return [...apart].sort((p, q) => p.probability - q.probability);
    }

    expectations() {
      const { pen, colours } = this, named = [];
      this.scene.objects.forEach((one, i) => {
        const apart = this.expected(one);
        for (const part of apart) {
          const [x, y, right] = this.ellipses(part);
          if (apart.length > 1 && one.role === "acted") named.push([part, x, y, right + 8]);
        }
        if (!apart.length) return;
        const centre = this.project(this.place(i));
        pen.beginPath();
        pen.arc(centre[0], centre[1], 3.4, 0, 7);
        pen.fillStyle = "#fff";
        pen.fill();
        pen.strokeStyle = "#111";
        pen.lineWidth = 1.2;
        pen.stroke();
      });
      const taken = [];
      pen.font = LETTERS;
      for (const [part, x, y, away] of named.reverse()) { // the most probable first: others make room
        const text = `${part.name}: ${this.percent(part.probability)}`, wide = pen.measureText(text).width;
        const left = x + away + wide > this.canvas.clientWidth - 6 ? Math.max(6, x - away - wide) : x + away;
        let at = y;
        while (taken.some((one) => Math.abs(one - at) < 17)) at += 17;
        taken.push(at);
        if (at !== y || left < x) { // a label that does not stand beside its ellipse is led to it
          this.path([[x, y], [Math.min(Math.max(x, left), left + wide), at + (at > y ? -8 : 0)]]);
          pen.strokeStyle = `rgb(${colours.expect.join()})`;
          pen.lineWidth = 1;
          pen.stroke();
        }
        this.label(text, left, at, `rgb(${colours.expect.join()})`);
      }
    }

    percent(p) {
      return p > 0 && p < 0.005 ? "<1 %" : p < 1 && p >= 0.995 ? ">99 %" : `${Math.round(100 * p)} %`;
    }

    // An ellipsoid's outline is, to first order, the ellipse J C J' around the projected centre.
    ellipses({ expected, covariance, probability }) {
      const { pen } = this, [r, g, b] = this.colours.expect, strong = 0.3 + 0.7 * probability;
      const v = add(expected, this.focus, -1), depth = this.far - dot(v, this.back), f = this.scale / depth;
      const rows = [this.right, this.up].map((u, k) =>
        u.map((_, n) => f * (u[n] + (dot(v, u) * this.back[n]) / depth) * (k ? -1 : 1)));
      const spread = (p, q) => p.reduce((sum, x, m) => sum + x * dot(covariance[m], q), 0);
      const xx = spread(rows[0], rows[0]), xy = spread(rows[0], rows[1]), yy = spread(rows[1], rows[1]);
      const half = (xx + yy) / 2, root = Math.hypot((xx - yy) / 2, xy), turn = Math.atan2(2 * xy, xx - yy) / 2;
      const long = Math.sqrt(half + root), short = Math.sqrt(Math.max(half - root, 0));
      const [x, y] = this.project(expected);
      for (const [times, alpha] of [[2, 0.3], [1, 0.42]]) {
        pen.beginPath();
        pen.ellipse(x, y, Math.max(times * long, 2), Math.max(times * short, 2), turn, 0, 7);
        pen.fillStyle = `rgba(${r},${g},${b},${alpha * strong})`;
        pen.fill();
        pen.strokeStyle = `rgba(${r},${g},${b},${strong})`;
        pen.lineWidth = times > 1 ? 1.6 : 0.8;
        pen.stroke();
      }
      return [x, y, Math.max(2 * Math.hypot(long * Math.cos(turn), short * Math.sin(turn)), 4)];
    }

    // -- what a reader does ---------------------------------------------------------------------------------------
    controls(place) {
      const make = (tag, set) => place.appendChild(Object.assign(document.createElement(tag), set));
      const play = make("button", { type: "button", textContent: "Play" });
      this.range = make("input", { type: "range", min: 0, max: 1, step: "any", value: 1 });
      this.range.setAttribute("aria-label", "time, from before to after");
      this.range.oninput = () => this.move(Number(this.range.value));
      play.onclick = () => this.play();
      const { objects, references } = this.scene;
      const there = { prediction: objects.some((one) => one.expected), references: references.length > 0 };
      for (const name of Object.keys(there).filter((one) => there[one])) {
        const label = make("label", {}), tick = document.createElement("input");
        Object.assign(tick, { type: "checkbox", checked: true });
        tick.onchange = () => { this.show[name] = tick.checked; this.draw(); };
        label.append(tick, name);
      }
    }

    move(at) {
      this.at = at;
      this.range.value = at;
      this.draw();
    }

    play() {
      const begin = performance.now();
      const step = (now) => {
        const share = Math.min(1, Math.max(0, (now - begin) / TIME));
        this.move(share * share * (3 - 2 * share));
        if (share < 1) requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    }

    listen() {
      const { canvas } = this, keys = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, 0.08], ArrowDown: [0, -0.08] };
      let from = null;
      canvas.onpointerdown = (e) => { from = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); };
      canvas.onpointerup = canvas.onpointercancel = () => { from = null; };
      canvas.onpointermove = (e) => {
        if (!from) return;
        this.turn(-(e.clientX - from[0]) * 0.009, e.pointerType === "touch" ? 0 : (e.clientY - from[1]) * 0.007);
        from = [e.clientX, e.clientY];
      };
      canvas.onkeydown = (e) => {
        if (keys[e.key]) { e.preventDefault(); this.turn(...keys[e.key]); }
        if (e.key === "+" || e.key === "-") this.nearer(e.key === "+" ? 1.15 : 1 / 1.15);
      };
      canvas.addEventListener("wheel", (e) => {
        if (!e.ctrlKey) return; // the page scrolls; with Ctrl, or two fingers on a touchpad, the view zooms
        e.preventDefault();
        this.nearer(Math.exp(-e.deltaY / 300));
      }, { passive: false });
      new ResizeObserver(() => this.draw()).observe(canvas);
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      window.addEventListener("beforeprint", () => { this.paper = true; this.draw(); });
      window.addEventListener("afterprint", () => { this.paper = false; this.draw(); });
    }

    turn(sideways, up) {
      this.azimuth += sideways;
      this.elevation = Math.min(1.5, Math.max(0.08, this.elevation + up));
      this.draw();
    }

    nearer(times) {
      this.zoom = Math.min(5, Math.max(0.4, this.zoom * times));
      this.draw();
    }
  }

  for (const figure of document.querySelectorAll("figure.scene")) new View(figure);
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
})();
