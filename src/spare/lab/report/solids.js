// Vectors, boxes, and the order in which boxes must be painted: what the viewer needs of geometry.
"use strict";
const Solids = (() => {
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const mix = (a, b, t) => a.map((v, k) => v + (b[k] - v) * t);

  const FACES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]];
  const EDGES = [[0, 1], [0, 2], [0, 4], [1, 3], [1, 5], [2, 3], [2, 6], [3, 7], [4, 5], [4, 6], [5, 7], [6, 7]];

  function axes([x, y, z, w]) {
    return [
      [1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)],
      [2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w)],
      [2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)],
    ];
  }

  function box(size, pose, kind) {
    const centre = pose.slice(0, 3), turn = axes(pose.slice(3)), corners = [];
    for (const i of [-0.5, 0.5]) for (const j of [-0.5, 0.5]) for (const k of [-0.5, 0.5])
      corners.push([i * size[0], j * size[1], k * size[2]].reduce((sum, s, a) => add(sum, turn[a], s), centre));
    const normals = [0, 1, 2].flatMap((a) => [turn[a].map((v) => -v), turn[a]]);
    return { centre, corners, normals, kind };
  }

  // Whether b must be drawn after a, seen from the eye: some face of one has all of the other beyond it.
  function covers(a, b, eye) {
    const beyond = (one, other) => {
      for (let f = 0; f < 6; f++) {
        const n = one.normals[f], at = dot(n, one.corners[FACES[f][0]]);
        if (other.corners.every((c) => dot(n, c) >= at - 0.002)) return dot(n, eye) > at ? 1 : -1;
      }
      return 0;
    };
    return beyond(a, b) || -beyond(b, a) || Math.sign(distance(a.centre, eye) - distance(b.centre, eye));
  }
  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);

  function backToFront(boxes, eye) {
    const order = [], state = new Map();
    const visit = (one) => {
      if (state.has(one)) return;
      state.set(one, 1);
      for (const other of boxes) if (other !== one && covers(other, one, eye) > 0) visit(other);
      order.push(one);
    };
    [...boxes].sort((a, b) => distance(b.centre, eye) - distance(a.centre, eye)).forEach(visit);
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

  return { dot, add, cross, mix, distance, box, backToFront, hull, FACES, EDGES };
})();
