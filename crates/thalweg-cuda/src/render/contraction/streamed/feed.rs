//! Rows, keys and values by boxes: a warp of its own has them copied, some steps ahead of those that compute.

use super::{StreamedClass, StreamedSlots};
use crate::render::contraction::fed::{Boxes, FedFactor};

/// As `copies` beside this: barriers, what the copying warp does, and how a step waits and ends.
pub(super) fn text(class: &StreamedClass, slots: &StreamedSlots, factors: &[FedFactor; 3]) -> [String; 4] {
    let stages = class.stages();
    let [depth, columns] = class.sizes;
    let keys = class.keys;
    let size = class.dtype.size() as u32;
    let bytes = [0, 1, 2].map(|n| class.layout(n)[1] * size);
    let step = format!("step * {keys}");
    let copy = |number: usize, counts: [u32; 2], first: [&str; 2], to: &str| {
        let boxes = Boxes {
            factor: factors[number],
            number,
            words: slots.factors[number],
            map: slots.maps[number],
            counts,
            first,
            to,
            barrier: "full + slot",
        };
        boxes.text()
    };
    let place = |n: usize| format!("s{n} + slot * {}", class.layout(n)[1]);
    let barriers = format!(
        r#"  Barrier *const full = (Barrier *)(shared + {at}), *const empty = full + {stages};
  if (t == 0) {{
    for (int s = 0; s < 2 * {stages}; s++) barrier_start(full + s, 1);
    barriers_started();
  }}
  __syncthreads();
"#,
        at = class.barriers_at(),
    );
    let producer = format!(
        r#"  if (warp == {warps}) {{
    if (lane) return;
    for (i32 step = 0; step < steps; step++) {{
      const u32 slot = (u32)step % {stages};
      barrier_wait(empty + slot, ((u32)step / {stages} & 1) ^ 1);
      barrier_expect(full + slot, {pair} + (step ? 0 : {rows_bytes}));
      if (step == 0) {{
{rows}      }}
{of_keys}{of_values}    }}
    return;
  }}
"#,
        warps = class.warps,
        pair = bytes[1] + bytes[2],
        rows_bytes = bytes[0],
        rows = copy(0, [class.rows(), depth], ["row0", "0"], "s0"),
        of_keys = copy(1, [keys, depth], [&step, "0"], &place(1)),
        of_values = copy(2, [columns, keys], ["0", &step], &place(2)),
    );
    let arrive = format!(
        "    const u32 slot = (u32)step % {stages};\n    barrier_wait(full + slot, (u32)step / {stages} & 1);\n"
    );
    let leave = "    if (t == 0) barrier_arrive(empty + slot);\n";
    let warp_row = "  const i64 warp_row = row0 + warp * 16;\n";
    [barriers, producer + warp_row, arrive, leave.into()]
}
