"use strict";
// Draws the pictures of runs and sweeps from the JSON beside them. Every text goes in as text.
(() => {
  const DOTS = "\u2026", charts = new Set(), narrow = () => innerWidth < 600;
  // A sheet of paper is narrower than most screens, and pictures do not shrink on it.
  const broad = place => document.documentElement.classList.contains("print") ? Math.min(place.clientWidth, 680) : place.clientWidth;
  const paper = () => getComputedStyle(document.documentElement);
  const ink = name => paper().getPropertyValue("--" + name).trim();
  const utc = t => new Date(t * 1000).toISOString();
  const clock = (t, fine) => utc(t).slice(11, fine ? 23 : 19);
  const day = (t, fine) => utc(t).slice(5, fine ? 19 : 16).replace("T", " ");
  const when = u => u.scales.x.max - u.scales.x.min > 86400 ? day : clock;
  const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + DOTS : text;
  const digits = v => {
    const size = Math.abs(v);
    return size >= 100 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));
  };
  const span = ms => ms == null ? "" : ms >= 1000 ? digits(ms / 1000) + " s" : ms >= 0.1 || !ms ? digits(ms) + " ms" : digits(ms * 1000) + " \u00b5s";
  const plain = v => v == null ? "" : digits(v);

  // Marks differ by shape, not by colour alone.
  const SHAPES = {
    dot: (c, x, y, r) => { c.beginPath(); c.arc(x, y, r, 0, 7); c.fill(); },
    cross: (c, x, y, r) => { c.beginPath(); c.moveTo(x - r, y - r); c.lineTo(x + r, y + r); c.moveTo(x - r, y + r); c.lineTo(x + r, y - r); c.stroke(); },
    square: (c, x, y, r) => c.strokeRect(x - r, y - r, 2 * r, 2 * r),
    up: (c, x, y, r) => { c.beginPath(); c.moveTo(x, y - r); c.lineTo(x + r, y + r); c.lineTo(x - r, y + r); c.closePath(); c.fill(); },
    diamond: (c, x, y, r) => { c.beginPath(); c.moveTo(x, y - r); c.lineTo(x + r, y); c.lineTo(x, y + r); c.lineTo(x - r, y); c.closePath(); c.stroke(); },
  };
  const DASHES = { whole: [], dashed: [7, 4], dotted: [2, 3] };
  // The same for all, so that one time is at one place.
  const COLUMN = () => narrow() ? 58 : 66, RIGHT = () => narrow() ? 32 : 44;

  function marks(u, s, one) {
    const c = u.ctx, px = devicePixelRatio, xs = u.data[0], ys = u.data[s];
    const [low, high] = [u.scales.x.min, u.scales.x.max];
    c.save();
    c.beginPath(); c.rect(u.bbox.left, u.bbox.top - 4, u.bbox.width, u.bbox.height + 8); c.clip();
    c.fillStyle = c.strokeStyle = ink(one.colour); c.lineWidth = 1.4 * px;
    for (let at = 0; at < xs.length; at++) {
      if (ys[at] == null || xs[at] < low || xs[at] > high) continue;
      SHAPES[one.mark](c, u.valToPos(xs[at], "x", true), u.valToPos(ys[at], one.scale || "y", true), (one.size || 2.2) * px);
    }
    c.restore();
  }

  function uprights(u, run) {
    const c = u.ctx, px = devicePixelRatio;
    c.save();
    c.strokeStyle = ink("soft"); c.lineWidth = px; c.setLineDash([3 * px, 3 * px]); c.globalAlpha = 0.75;
    for (const event of run.events) {
      if (event.t < u.scales.x.min || event.t > u.scales.x.max) continue;
      const x = u.valToPos(event.t, "x", true);
      c.beginPath(); c.moveTo(x, u.bbox.top); c.lineTo(x, u.bbox.top + u.bbox.height); c.stroke();
    }
    c.restore();
  }

  function bands(u, spans) {
    const c = u.ctx, px = devicePixelRatio, { left, top, width, height } = u.bbox;
    c.save(); c.beginPath(); c.rect(left, top, width, height); c.clip();
    for (const [from, to] of spans) {
      const x = u.valToPos(from, "x", true), wide = Math.max(2 * px, u.valToPos(to, "x", true) - x);
      c.fillStyle = ink("bad"); c.globalAlpha = 0.22; c.fillRect(x, top, wide, height);
      c.globalAlpha = 1; c.fillRect(x, top, wide, 5 * px);
    }
    c.restore();
  }

  function bounds(u, lines) {
    const c = u.ctx, px = devicePixelRatio, { left, width } = u.bbox;
    c.save(); c.font = `${12 * px}px system-ui, sans-serif`; c.textAlign = "right"; c.textBaseline = "bottom";
    for (const line of lines) {
      const y = u.valToPos(line.v, "y", true);
      c.strokeStyle = c.fillStyle = ink(line.colour); c.lineWidth = 1.3 * px;
      c.setLineDash(DASHES[line.dash].map(d => d * px));
      c.beginPath(); c.moveTo(left, y); c.lineTo(left + width, y); c.stroke();
    }
    // Below each other where they would run into each other.
    let last = -Infinity;
    for (const line of [...lines].sort((a, b) => b.v - a.v)) {
      const y = Math.max(u.valToPos(line.v, "y", true) + 14 * px, last + 14 * px);
      const wide = c.measureText(line.name).width;
      c.fillStyle = ink("paper"); c.fillRect(left + width - wide - 8 * px, y - 13 * px, wide + 6 * px, 13 * px);
      c.fillStyle = ink("ink"); c.fillText(line.name, left + width - 5 * px, y); last = y;
    }
    c.restore();
  }

  // The nearest value of a series to where the cursor is, as rows of others lie between.
  function nearest(u, s, at) {
    const ys = u.data[s], xs = u.data[0];
    if (at == null || ys[at] != null) return at;
    let low = at, high = at;
    while (low >= 0 && ys[low] == null) low--;
    while (high < ys.length && ys[high] == null) high++;
    if (low < 0 && high >= ys.length) return null;
    if (low < 0) return high;
    if (high >= ys.length) return low;
    return xs[at] - xs[low] < xs[high] - xs[at] ? low : high;
  }

  const DECADES = (_, __, low, high) => {
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) found.push(10 ** e);
    const inside = found.filter(v => v >= low * 0.999 && v <= high * 1.001);
    if (inside.length > 2) return inside;
    return found.flatMap(v => [v, 2 * v, 5 * v]).filter(v => v >= low * 0.999 && v <= high * 1.001);
  };

  // To the next half of a decade.
  function logRange(values) {
    const known = values.filter(v => v > 0 && isFinite(v)).map(Math.log10);
    if (!known.length) return [1, 10];
    const low = Math.min(...known), high = Math.max(...known);
    return [10 ** (Math.floor(low * 2) / 2), 10 ** (Math.ceil(high * 2 + 0.2) / 2)];
  }

  function axes(show, named) {
    const line = { stroke: () => ink("line"), width: 1 };
    const font = `${narrow() ? 11 : 12}px system-ui, sans-serif`;
    return [
      { stroke: () => ink("soft"), grid: line, ticks: line, font, space: narrow() ? 75 : 90, size: 30, values: (u, at) => at.map(t => when(u)(t)) },
      { stroke: () => ink("soft"), grid: line, ticks: line, font, size: COLUMN(), values: (u, at) => at.map(v => v == null ? "" : show(v)), ...named },
    ];
  }

  function timed(place, run, view, what) {
    const data = uPlot.join(what.series.map(one => [one.t, one.v]));
    const show = what.show || plain;
    const made = new uPlot({
      width: broad(place), height: what.height, padding: [8, what.right ? 0 : RIGHT(), 0, 0],
      tzDate: t => uPlot.tzDate(new Date(t * 1e3), "Etc/UTC"),
      cursor: { sync: { key: run.key, setSeries: false }, drag: { x: true, y: false }, focus: { prox: -1 }, dataIdx: nearest, points: { show: false } },
      scales: { x: { time: true, min: view.from, max: view.to }, y: what.scale, ...(what.more || {}) },
      axes: [...axes(show, what.axis), ...(what.right || [])],
      legend: { live: true, markers: { show: false } },
      series: [
        { label: "Time, UTC", value: (u, t) => t == null ? "" : when(u)(t, true) },
        ...what.series.map(one => ({
          label: one.name, scale: one.scale || "y",
          stroke: () => ink(one.colour), width: one.mark ? 0 : 1.5, dash: one.mark ? [] : DASHES[one.dash || "whole"],
          paths: one.mark ? () => null : one.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
          spanGaps: true, points: { show: false }, value: (u, v) => (one.plain ? plain : show)(v),
        })),
      ],
      hooks: {
        drawClear: [u => { if (what.bands) bands(u, what.bands); }],
        draw: [u => {
          uprights(u, run);
          if (what.lines) bounds(u, what.lines);
          what.series.forEach((one, s) => { if (one.mark && u.series[s + 1].show) marks(u, s + 1, one); });
          if (what.also) what.also(u);
        }],
        setScale: [(u, key) => { if (key === "x") view.follow(u); }],
      },
    }, data, place);
    swatches(made, what.series);
    return made;
  }

  // A legend that shows each line or mark as it is drawn.
  function swatches(u, series) {
    u.root.querySelectorAll(".u-legend .u-series").forEach((row, at) => {
      const one = series[at - 1], label = row.querySelector(".u-label");
      row.querySelector("th").removeAttribute("tabindex");
      if (!one || !label) return;
      const small = document.createElement("canvas"), px = devicePixelRatio;
      small.width = 22 * px; small.height = 12 * px; small.className = "swatch"; small.setAttribute("aria-hidden", "true");
      const c = small.getContext("2d");
      c.strokeStyle = c.fillStyle = ink(one.colour); c.lineWidth = 1.6 * px;
      if (one.mark) SHAPES[one.mark](c, 11 * px, 6 * px, 3.4 * px);
      else { c.setLineDash(DASHES[one.dash || "whole"].map(d => d * px)); c.beginPath(); c.moveTo(0, 6 * px); c.lineTo(22 * px, 6 * px); c.stroke(); }
      label.before(small);
    });
  }

  function track(run) {
    return u => {
      const c = u.ctx, px = devicePixelRatio, rows = [], step = 20 * px, { left, width, top } = u.bbox;
      const rowsMost = Math.max(1, Math.floor(u.bbox.height / step));
      // No number lies on a text: the last row is of events whose text has no room.
      const named = narrow() ? rowsMost : Math.max(1, rowsMost - 1);
      c.save(); c.font = `${12 * px}px system-ui, sans-serif`; c.textBaseline = "middle";
      for (const event of run.events) {
        if (event.t < u.scales.x.min || event.t > u.scales.x.max) continue;
        const x = u.valToPos(event.t, "x", true), number = String(event.n), text = narrow() ? "" : " " + cut(event.what, 44);
        const wide = c.measureText(number).width + 8 * px, all = wide + c.measureText(text).width + 8 * px;
        const fits = x + all < left + width;
        const from = fits ? x : x - all;
        let row = 0;
        while (row < named && rows[row] > from) row++;
        const labelled = row < named;
        if (!labelled) { row = 0; while (row < rowsMost && rows[row] > x) row++; }
        if (row === rowsMost) continue;  // no number lies on another; it is named below
        rows[row] = Math.max(rows[row] || 0, labelled ? (fits ? x + all : x + wide) : x + wide);
        const y = top + step * (row + 0.5);
        c.fillStyle = ink("paper"); c.fillRect(x, y - 8 * px, wide, 16 * px);
        c.strokeStyle = ink("soft"); c.lineWidth = px; c.strokeRect(x, y - 8 * px, wide, 16 * px);
        c.fillStyle = ink("ink"); c.textAlign = "left"; c.fillText(number, x + 4 * px, y);
        if (labelled && text) { if (fits) c.fillText(text, x + wide, y); else { c.textAlign = "right"; c.fillText(text.trim(), x - 5 * px, y); } }
      }
      c.restore();
    };
  }

  function pictures(run) {
    const all = [];
    const ends = { t: [run.from, run.to], v: [null, null], name: "", colour: "soft" };
    if (run.events.length) {
      const narrowly = narrow() ? 80 : 46 + 20 * Math.min(4, run.events.length);
      all.push(["events", { height: narrowly + 30, series: [], scale: { range: [0, 1] }, axis: { values: () => [], grid: { show: false }, ticks: { show: false } }, also: track(run), empty: true }]);
    }
    if (run.changes.length) all.push(["changes", {
      height: 230, show: span, series: run.changes, axis: { splits: DECADES },
      scale: { distr: 3, range: () => logRange(run.changes.flatMap(one => one.v)) },
    }]);
    if (run.rates.length) all.push(["rates", { height: 150, series: run.rates.map(one => ({ ...one, steps: true })), scale: { range: (u, low, high) => [0, Math.max(1, high * 1.1)] } }]);
    if (run.lag.length) {
      const top = Math.max(...run.bounds.map(one => one.v), ...run.lag.map(one => Math.max(...one.v)), 10);
      all.push(["lag", {
        height: 210, series: run.lag.map(one => ({ ...one, v: one.v.map(v => Math.max(v, 0.5)), steps: true })), bands: run.blocked, lines: run.bounds,
        show: v => v == null ? "" : v <= 0.5 ? "0" : plain(v), axis: { splits: DECADES, values: (u, at) => at.map(v => v < 1 ? "0" : plain(v)) },
        scale: { distr: 3, range: () => [0.5, top * 1.6] },
      }]);
    }
    if (run.multis.length) all.push(["multis", {
      height: 180, show: span, series: run.multis, axis: { splits: DECADES },
      scale: { distr: 3, range: () => logRange(run.multis.filter(one => !one.scale).flatMap(one => one.v)) },
      more: { flight: { range: (u, low, high) => [0, Math.max(1, high * 1.2)] } },
      right: [{ scale: "flight", side: 1, stroke: () => ink("soft"), grid: { show: false }, ticks: { stroke: () => ink("line"), width: 1, size: 4 }, gap: 3, size: RIGHT(), font: `${narrow() ? 11 : 12}px system-ui, sans-serif` }],
    }]);
    if (run.syncs.length) all.push(["syncs", {
      height: 180, show: span, series: run.syncs, axis: { splits: DECADES },
      scale: { distr: 3, range: () => logRange(run.syncs.flatMap(one => one.v)) },
    }]);
    return all.map(([name, what]) => [name, { ...what, series: what.series.length ? what.series : [ends] }]);
  }

  function percentiles(place, run) {
    const what = run.percentiles;
    const names = { 0.5: "p50", 0.1: "p90", 0.01: "p99", 0.001: "p99.9", 0.0001: "p99.99", 0.00001: "p99.999" };
    const at = Object.keys(names).map(share => -Math.log10(+share)).sort((a, b) => a - b);
    const most = Math.max(1, ...what.flatMap(one => one.t));
    const label = x => { for (const share in names) if (Math.abs(-Math.log10(+share) - x) < 1e-6) return names[share]; return ""; };
    const made = new uPlot({
      width: broad(place), height: 250, padding: [8, 12, 0, 0],
      cursor: { drag: { x: false, y: false }, dataIdx: nearest, points: { show: false } },
      scales: { x: { time: false, range: () => [0, most * 1.02] }, y: { distr: 3, range: () => logRange(what.flatMap(one => one.v)) } },
      axes: [
        { ...axes(span)[0], splits: () => at.filter(x => x <= most), values: (u, xs) => xs.map(label) },
        { ...axes(span)[1], splits: DECADES, values: (u, ys) => ys.map(v => v == null ? "" : span(v)) },
      ],
      legend: { live: true, markers: { show: false } },
      series: [
        { label: "Percentile", value: (u, x) => x == null ? "" : `${+(100 * (1 - 10 ** -x)).toPrecision(6)} %` },
        ...what.map(one => ({ label: one.name, stroke: () => ink(one.colour), width: one.mark ? 0 : 2, dash: DASHES[one.dash || "whole"], paths: one.mark ? () => null : undefined, spanGaps: true, points: { show: false }, value: (u, v) => (one.mark && v != null ? "> " : "") + span(v) })),
      ],
      hooks: { draw: [u => what.forEach((one, s) => { if (one.mark) marks(u, s + 1, { ...one, size: 3.4 }); })] },
    }, uPlot.join(what.map(one => [one.t, one.v])), place);
    swatches(made, what);
    return made;
  }

  // Repeats as marks, medians as lines, intervals as bands, knees as shaded ranges of the axis.
  function chart(figure) {
    const what = JSON.parse(figure.querySelector("script").textContent), place = figure.querySelector(".plot");
    const all = what.series.flatMap(one => [...one.dots, ...one.line, ...one.band ? one.band.flatMap(b => [[b[0], b[1]], [b[0], b[2]]]) : []]);
    const most = Math.max(1e-9, ...all.map(p => p[0])), log = what.log && all.some(p => p[1] > 0);
    const range = log ? () => logRange(all.map(p => p[1])) : () => [0, Math.max(1e-9, ...all.map(p => p[1])) * 1.08];
    const show = what.y === "ms" ? span : plain;
    const lines = what.series.map(one => (one.line.length ? one.line : one.dots.slice(0, 1)));
    const view = { first: 0, last: most * 1.04, show: (from, to) => { u.zoomed = to - from < most * 1.04; u.setScale("x", { min: from, max: to }); } };
    place.replaceChildren();
    const u = new uPlot({
      width: broad(place), height: 300, padding: [8, 14, 0, 0],
      cursor: { sync: { key: what.x, setSeries: false }, drag: { x: true, y: false }, dataIdx: nearest, points: { show: false } },
      scales: { x: { time: false, range: (u, low, high) => u.zoomed ? [low, high] : [0, most * 1.04] }, y: { distr: log ? 3 : 1, range } },
      axes: [
        { ...axes(plain)[0], values: (u, at) => at.map(plain), label: what.x, labelSize: 22, labelFont: "12px system-ui, sans-serif", space: 60 },
        { ...axes(show)[1], ...(log ? { splits: DECADES } : {}) },
      ],
      legend: { live: true, markers: { show: false } },
      series: [{ label: what.x, value: (u, v) => plain(v) }, ...what.series.map(one => ({
        label: one.name, stroke: () => ink(one.colour), width: one.line.length ? 1.8 : 0, dash: DASHES[one.dash],
        paths: one.line.length ? undefined : () => null, spanGaps: true, points: { show: false }, value: (u, v) => show(v),
      }))],
      hooks: {
        setSelect: [u => { u.zoomed = true; }],
        drawClear: [u => what.series.forEach(one => {
          const c = u.ctx, px = devicePixelRatio, at = (v, k) => u.valToPos(v, k, true), { left, top, width, height } = u.bbox;
          c.save(); c.beginPath(); c.rect(left, top, width, height); c.clip(); c.fillStyle = ink(one.colour);
          if (one.band && one.band.length) {
            c.globalAlpha = 0.16; c.beginPath();
            one.band.forEach(b => c.lineTo(at(b[0], "x"), at(b[2], "y")));
            [...one.band].reverse().forEach(b => c.lineTo(at(b[0], "x"), at(log ? Math.max(b[1], u.scales.y.min) : b[1], "y")));
            c.fill();
          }
          if (one.knee && one.knee.length) {
            const from = at(one.knee[0], "x"), to = one.knee[1] == null ? left + width : at(one.knee[1], "x");
            c.globalAlpha = 0.8; c.fillRect(from, top + height - 7 * px, Math.max(3 * px, to - from), 4 * px);
          }
          c.restore();
        })],
        draw: [u => {
          const c = u.ctx, px = devicePixelRatio; c.save();
          for (const one of what.series) {
            c.fillStyle = c.strokeStyle = ink(one.colour); c.lineWidth = 1.4 * px;
            for (const [x, y] of one.dots) {
              if (log && y <= 0 || x < u.scales.x.min || x > u.scales.x.max) continue;
              SHAPES[one.mark](c, u.valToPos(x, "x", true), u.valToPos(y, "y", true), 3 * px);
            }
          }
          c.restore();
        }],
      },
    }, uPlot.join(lines.map(line => [line.map(p => p[0]), line.map(p => p[1])])), place);
    swatches(u, what.series);
    u.over.addEventListener("dblclick", () => view.show(view.first, view.last));
    keys(place, u, view, document.querySelector("p.spoken"));
    charts.add(u);
  }

  function keys(figure, u, view, spoken) {
    figure.onkeydown = event => {
      const wide = u.over.clientWidth, { min, max } = u.scales.x;
      let left = u.cursor.left >= 0 ? u.cursor.left : wide / 2;
      const step = wide / (event.shiftKey ? 10 : 100), zoom = factor => {
        const mid = u.posToVal(left, "x"), half = (max - min) * factor / 2;
        view.show(Math.max(view.first, mid - half), Math.min(view.last, mid + half));
      };
      if (event.key === "ArrowLeft") left = Math.max(0, left - step);
      else if (event.key === "ArrowRight") left = Math.min(wide, left + step);
      else if (event.key === "Home") left = 0;
      else if (event.key === "End") left = wide;
      else if (view.show && (event.key === "+" || event.key === "=")) return zoom(0.5), event.preventDefault();
      else if (view.show && event.key === "-") return zoom(2), event.preventDefault();
      else if (view.show && (event.key === "0" || event.key === "Escape")) return view.show(view.first, view.last), event.preventDefault();
      else return;
      event.preventDefault();
      u.setCursor({ left, top: u.over.clientHeight / 2 }, true, true);
      spoken.textContent = [...u.root.querySelectorAll(".u-legend .u-series")].map(row => [".u-label", ".u-value"].map(part => row.querySelector(part).textContent).join(" ")).join("; ");
    };
  }

  function draw(part) {
    const run = part.run, view = part.view, made = [];
    const spoken = part.root.querySelector(".spoken");
    view.follow = one => {
      if (view.busy) return;
      view.busy = true;
      view.from = one.scales.x.min; view.to = one.scales.x.max;
      for (const u of made) if (u !== one) u.setScale("x", { min: view.from, max: view.to });
      view.busy = false;
    };
    view.show = (from, to) => { view.from = from; view.to = to; view.busy = true; for (const u of made) u.setScale("x", { min: from, max: to }); view.busy = false; };
    view.busy = true;
    for (const [name, what] of pictures(run)) {
      const figure = part.root.querySelector(`[data-chart="${name}"]`), place = figure.querySelector(".plot");
      figure.hidden = false; place.replaceChildren();
      const u = timed(place, run, view, what);
      if (what.empty) u.root.querySelector(".u-legend").remove();
      u.over.addEventListener("dblclick", () => view.show(view.first, view.last));
      keys(place, u, view, spoken); made.push(u); charts.add(u);
    }
    view.busy = false;
    const ranks = part.root.querySelector('[data-chart="percentiles"]'), place = ranks.querySelector(".plot");
    ranks.hidden = !run.percentiles.length;
    if (!ranks.hidden) { place.replaceChildren(); const u = percentiles(place, run); keys(place, u, {}, spoken); made.push(u); charts.add(u); }
    part.made = made;
  }

  const parts = [...document.querySelectorAll(".run")].map((root, at) => {
    const run = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    run.key = "run" + at;
    const edge = (run.to - run.from) * 0.01 || 0.5;
    const view = { from: run.from - edge, to: run.to + edge, first: run.from - edge, last: run.to + edge };
    const part = { root, run, view };
    root.querySelectorAll("button[data-view]").forEach(button => {
      button.hidden = button.dataset.view === "load" && !run.load;
      button.onclick = () => button.dataset.view === "load" ? view.show(...run.load) : view.show(view.first, view.last);
    });
    return part;
  });
  function again() {
    for (const u of charts) u.destroy();
    charts.clear();
    parts.forEach(draw);
    document.querySelectorAll("figure.xy").forEach(figure => { if (figure.clientWidth) chart(figure); });
  }
  again();
  // What is folded has no width yet.
  document.querySelectorAll("details").forEach(details => details.addEventListener("toggle", () => {
    if (details.open) details.querySelectorAll("figure.xy").forEach(figure => { if (!figure.querySelector(".uplot")) chart(figure); });
  }));
  let wide = innerWidth, wait = 0;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; clearTimeout(wait); wait = setTimeout(again, 150); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("beforeprint", () => { document.documentElement.classList.add("print"); again(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("print"); again(); });
  document.documentElement.classList.add("drawn");
})();
