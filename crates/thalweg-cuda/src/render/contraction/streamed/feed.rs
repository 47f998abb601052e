//! Rows, keys and values by boxes: a warp of its own has them copied, some steps ahead of those that compute.

use super::multiply::{begin_scores, begin_sums, pack};
use super::{StreamedClass, StreamedSlots};
use crate::render::contraction::fed::Boxes;
use thalweg_gpu::class::fed::FedFactor;

/// As `copies` beside this: barriers, and what the copying warp does.
pub(super) fn text(class: &StreamedClass, slots: &StreamedSlots, factors: &[FedFactor; 3]) -> [String; 3] {
    let stages = class.stages();
    let [depth, columns] = class.sizes;
    let keys = class.block.keys;
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
    for (int s = 0; s < {stages}; s++) {{ barrier_start(full + s, 1); barrier_start(empty + s, {warps}); }}
    barriers_started();
  }}
  __syncthreads();
"#,
        at = class.barriers_at(),
        warps = class.block.warps,
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
        warps = class.block.warps,
        pair = bytes[1] + bytes[2],
        rows_bytes = bytes[0],
        rows = copy(0, [class.rows(), depth], ["row0", "0"], "s0"),
        of_keys = copy(1, [keys, depth], [&step, "0"], &place(1)),
        of_values = copy(2, [columns, keys], ["0", &step], &place(2)),
    );
    let warp_row = "  const i64 warp_row = row0 + warp * 16;\n";
    [barriers, producer + warp_row, String::new()]
}

/// The loop over steps: `make` makes weights of the scores of step `step`, `rescale` says what they change of the sums.
/// While it does, the second product of the step before is under way.
pub(super) fn steps(class: &StreamedClass, make: &str, rescale: &str) -> String {
    let stages = class.stages();
    format!(
        r#"  float s[{eights}][4];
  if (steps) {{
    barrier_wait(full, 0);
{first}    warpgroup_wait<0>();
    keep(s);
    {{ const i32 step = 0;
{make}    }}
    u32 w[{fragments}][4];
{pack}    for (i32 step = 1; step < steps; step++) {{
      const u32 slot = (u32)step % {stages}, before = (u32)(step - 1) % {stages};
      barrier_wait(full + slot, (u32)step / {stages} & 1);
      {{
{scores}      }}
      {{
{sums}      }}
      warpgroup_wait<1>();
      keep(s);
{make}      warpgroup_wait<0>();
      keep(sum);
      if (t % 32 == 0) barrier_arrive(empty + before);
{rescale}{pack}    }}
    const u32 last = (u32)(steps - 1) % {stages};
{last}    warpgroup_wait<0>();
    keep(sum);
  }}
"#,
        eights = class.block.keys / 8,
        first = begin_scores(class, "0"),
        pack = pack(class),
        fragments = class.block.keys / 16,
        scores = begin_scores(class, "slot"),
        sums = begin_sums(class, "before"),
        last = begin_sums(class, "last"),
    )
}
