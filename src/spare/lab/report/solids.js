// Vectors, upright prisms, and the order in which they must be painted: what the viewer needs of geometry.
"use strict";
const Solids = (() => {
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const mix = (a, b, t) => a.map((v, k) => v + (b[k] - v) * t);
  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);

  // A box, or a cylinder as a prism of many sides; corners are those of the bottom, then those of the top.
  function prism([w, l, h], centre, round) {
    const n = round ? 24 : 4, reach = round ? 0.5 : Math.SQRT1_2, ring = [...Array(n).keys()];
    const at = (k, z) => {
      const a = ((k + 0.5) * 2 * Math.PI) / n;
      return add(centre, [w * reach * Math.cos(a), l * reach * Math.sin(a), z * h]);
    };
    const corners = [...ring.map((k) => at(k, -0.5)), ...ring.map((k) => at(k, 0.5))];
    const sides = ring.map((k) => {
      const next = (k + 1) % n, along = add(corners[next], corners[k], -1), long = Math.hypot(...along);
      return { corners: [k, next, n + next, n + k], normal: [along[1] / long, -along[0] / long, 0] };
    });
    const faces = [
      { corners: [...ring].reverse(), normal: [0, 0, -1] }, { corners: ring.map((k) => n + k), normal: [0, 0, 1] }, ...sides,
    ];
    const edges = ring.flatMap((k) => [[k, (k + 1) % n], [n + k, n + ((k + 1) % n)], ...(round ? [] : [[k, n + k]])]);
    return { centre, corners, faces, edges, round };
  }

  // Whether b must be drawn after a, seen from the eye: some face of one has all of the other beyond it.
  function covers(a, b, eye, slack) {
    const beyond = (one, other) => {
      for (const face of one.faces) {
        const at = dot(face.normal, one.corners[face.corners[0]]);
        if (other.corners.every((c) => dot(face.normal, c) >= at - slack)) return dot(face.normal, eye) > at ? 1 : -1;
      }
      return 0;
    };
    return beyond(a, b) || -beyond(b, a) || Math.sign(distance(a.centre, eye) - distance(b.centre, eye));
  }

  function backToFront(solids, eye, slack) {
    const order = [], state = new Map();
    const visit = (one) => {
      if (state.has(one)) return;
      state.set(one, 1);
      for (const other of solids) if (other !== one && covers(other, one, eye, slack) > 0) visit(other);
      order.push(one);
    };
    [...solids].sort((a, b) => distance(b.centre, eye) - distance(a.centre, eye)).forEach(visit);
    return order;
  }

  function hull(points) {
    const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = (list) => {
      const out = [];
      for (const p of list) {
        while (out.length > 1) {
          const [a, b] = out.slice(-2);
          if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
          out.pop();
        }
        out.push(p);
      }
      return out.slice(0, -1);
    };
    return [...half(sorted), ...half(sorted.reverse())];
  }

  return { dot, add, cross, mix, distance, prism, backToFront, hull };
})();
