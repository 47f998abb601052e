//! Blocks that stay until all tiles are done: two or three warpgroups of 64 rows share the keys that a thread of one more
//! has copied.
//!
//! Keys and values have barriers of their own, since a step's scores are done with its keys long before its weights meet
//! its values; rows are let go of behind the last scores, so that the next tile comes while this one's sums are written.
//! Three warpgroups multiply *in turns*: while one does, the others make weights of their scores.

use super::multiply::{begin_scores, begin_sums, functions, pack};
use super::weigh::begin;
use super::{StreamedClass, StreamedSlots, Texts};
use crate::render::contraction::fed::Boxes;
use crate::render::types::stored;
use crate::render::warpgroup;
use thalweg_gpu::class::fed::FedFactor;
use thalweg_gpu::class::streamed::groups;

/// Registers of the thread that has everything copied: what three warpgroups leave, or what it needs.
fn less(groups: u32) -> u32 {
    if groups > 2 { 32 } else { 24 }
}

/// How warpgroups that multiply in turns tell each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turns {
    /// They do not: two fill each other's gaps by themselves.
    None,
    /// Both meet at a barrier of the multiprocessor.
    Met,
    /// One tells the other by a barrier in shared memory.
    Told,
}

/// Measured on an H200, three warpgroups: 2 % faster where they meet, but for tiles that see fewer keys from one to the
/// next, which are 3 % slower.
fn turns(class: &StreamedClass) -> Turns {
    match (groups(class), &class.seen) {
        (..3, _) => Turns::None,
        (_, None) => Turns::Met,
        (_, Some(_)) => Turns::Told,
    }
}

/// The loop over a block's tiles, and which tile it has. All blocks go forward and back, so that where tiles see fewer
/// keys from one to the next, each block has the same number of them.
fn tiles(class: &StreamedClass, texts: &Texts) -> String {
    let [product, tile] = match &class.seen {
        None => ["at / (u32)a.w[4]", "at % (u32)a.w[4]"],
        // Those that see most keys come first, of all products.
        Some(_) => ["at % (u32)a.w[6]", "(u32)a.w[4] - 1 - at / (u32)a.w[6]"],
    };
    format!(
        r#"  for (u32 round = 0, first = 0; first < tiles; round++, first += gridDim.x) {{
    const u32 at = first + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    if (at >= tiles) continue;
    const u32 product = {product};
    const i64 row0 = (i64)({tile}) * {tall};
    i64 batch0 = 0, batch1 = 0, batch2 = 0;
    u32 rest = product;
{batches}{seen}"#,
        tall = class.rows(),
        batches = texts.batches,
        seen = texts.seen,
    )
}

/// Statements that go on to the next place of keys or values.
fn on(class: &StreamedClass, name: &str) -> String {
    format!("if (++{name} == {}) {{ {name} = 0; {name}_phase ^= 1; }}", class.stages())
}

/// What the thread does that has everything copied.
fn producer(class: &StreamedClass, slots: &StreamedSlots, factors: &[FedFactor; 3], texts: &Texts) -> String {
    let [depth, columns] = class.sizes;
    let keys = class.block.keys;
    let bytes = [0, 1, 2].map(|n| class.layout(n)[1] * class.dtype.size() as u32);
    let copy = |number: usize, counts: [u32; 2], first: [&str; 2], [to, barrier]: [&str; 2]| {
        let (factor, words, map) = (factors[number], slots.factors[number], slots.maps[number]);
        Boxes { factor, number, words, map, counts, first, to, barrier }.text()
    };
    let place = |n: usize, at: &str| format!("s{n} + {at} * {}", class.layout(n)[1]);
    let [ahead, behind] = [format!("step * {keys}"), format!("(step - 1) * {keys}")];
    format!(
        r#"  if (group == {groups}) {{
    registers_less<{less}>();
    if (t % 128) return;
    map_ahead(&a.w[{map0}]);
    map_ahead(&a.w[{map1}]);
    map_ahead(&a.w[{map2}]);
{tiles}    if (!steps) continue;
    barrier_wait(rows_empty, rows_phase ^ 1);
    barrier_expect(rows_full, {bytes0});
{rows}    rows_phase ^= 1;
    // In the order in which they are used: each step's keys, then the values of the step before.
    for (i32 step = 0; step <= steps; step++) {{
      if (step < steps) {{
        barrier_wait(keys_empty + slot, slot_phase ^ 1);
        barrier_expect(keys_full + slot, {bytes1});
{of_keys}        {on_keys}
      }}
      if (step) {{
        barrier_wait(values_empty + before, before_phase ^ 1);
        barrier_expect(values_full + before, {bytes2});
{of_values}        {on_values}
      }}
    }}
  }}
    return;
  }}
"#,
        groups = groups(class),
        less = less(groups(class)),
        map0 = slots.maps[0],
        map1 = slots.maps[1],
        map2 = slots.maps[2],
        tiles = tiles(class, texts),
        bytes0 = bytes[0],
        bytes1 = bytes[1],
        bytes2 = bytes[2],
        rows = copy(0, [class.rows(), depth], ["row0", "0"], ["s0", "rows_full"]),
        of_keys = copy(1, [keys, depth], [&ahead, "0"], [&place(1, "slot"), "keys_full + slot"]),
        of_values = copy(2, [columns, keys], ["0", &behind], [&place(2, "before"), "values_full + before"]),
        on_keys = on(class, "slot"),
        on_values = on(class, "before"),
    )
}

/// What a warpgroup does with a tile.
fn steps(class: &StreamedClass, texts: &Texts) -> String {
    let groups = groups(class);
    let how = match turns(class) {
        Turns::None => None,
        Turns::Met => Some("met"),
        Turns::Told => Some("told"),
    };
    let take_turn = how.map_or(String::new(), |how| format!("      take_turn_{how}(group, turns, turn);\n"));
    let give_turn = how.map_or(String::new(), |how| format!("      give_turn_{how}<{groups}>(group, turns);\n"));
    // Of a warpgroup whose rows see fewer keys than others of the block.
    let (own, rest) = match &class.seen {
        None => ("const i32 own = steps;".into(), String::new()),
        Some(_) => (
            format!(
                "const i64 own_keys = hides ? seen_keys(row0 + group * 64 + 63 + ahead, keys) : keys;\n      const i32 own_steps = (i32)((own_keys + {}) / {}), own = own_steps > 1 ? own_steps : 1;",
                class.block.keys - 1,
                class.block.keys
            ),
            format!(
                r#"      for (i32 step = own; step < steps; step++) {{
        barrier_wait(keys_full + slot, slot_phase);
{take_turn}{give_turn}        barrier_wait(values_full + before, before_phase);
        // All threads of the warp have seen both: one that is late by two rounds would wait for ever.
        __syncwarp();
        if (lane == 0) {{
          barrier_arrive(keys_empty + slot);
          barrier_arrive(values_empty + before);
        }}
        {}
        {}
      }}
"#,
                on(class, "slot"),
                on(class, "before")
            ),
        ),
    };
    format!(
        r#"    float sum[{columns}][4] = {{}};
{begin}    if (steps) {{
      {own}
      float s[{eights}][4];
      u32 w[{fragments}][4];
      barrier_wait(rows_full, rows_phase);
      barrier_wait(keys_full + slot, slot_phase);
{take_turn}      {{
{scores}      }}
{give_turn}      warpgroup_wait<0>();
      keep(s);
      if (lane == 0) {{
        barrier_arrive(keys_empty + slot);
        if (own == 1) barrier_arrive(rows_empty);
      }}
      {on_keys}
      {{ const i32 step = 0;
{make}      }}
{pack}      for (i32 step = 1; step < own; step++) {{
        barrier_wait(keys_full + slot, slot_phase);
{take_turn}        {{
{scores}        }}
        barrier_wait(values_full + before, before_phase);
        {{
{sums}        }}
{give_turn}        warpgroup_wait<1>();
        keep(s);
        if (lane == 0) {{
          barrier_arrive(keys_empty + slot);
          if (step + 1 == own) barrier_arrive(rows_empty);
        }}
        {on_keys}
{make}        warpgroup_wait<0>();
        keep(sum);
        if (lane == 0) barrier_arrive(values_empty + before);
        {on_values}
{rescale}{pack}      }}
      barrier_wait(values_full + before, before_phase);
      {{
{sums}      }}
      warpgroup_wait<0>();
      keep(sum);
      if (lane == 0) barrier_arrive(values_empty + before);
      {on_values}
{rest}      rows_phase ^= 1;
    }}
"#,
        columns = class.sizes[1] / 8,
        begin = begin(class),
        eights = class.block.keys / 8,
        fragments = class.block.keys / 16,
        scores = begin_scores(class, "slot"),
        sums = begin_sums(class, "before"),
        pack = pack(class),
        make = texts.make,
        rescale = texts.rescale,
        on_keys = on(class, "slot"),
        on_values = on(class, "before"),
    )
}

/// The source, with one function, `contraction`.
pub(super) fn source(class: &StreamedClass, slots: &StreamedSlots, factors: &[FedFactor; 3], texts: &Texts) -> String {
    let [rows, keys] = [0, 1].map(|f| class.layout(f)[1]);
    let (stages, groups) = (class.stages(), groups(class));
    format!(
        r#"
{functions}extern "C" __global__ void __launch_bounds__({threads}, 1) contraction(THALWEG_PARAMETER_LINES({words})) {{
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1], keys = (i64)a.w[2], depth = (i64)a.w[3], column0 = 0;
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, group = same_in_warp(t / 128);
  const u32 tiles = (u32)a.w[4] * (u32)a.w[6];
  u32 *const fault = (u32 *)a.w[5];
  {element} *const s0 = ({element} *)shared, *const s1 = s0 + {rows}, *const s2 = s1 + {stages} * {keys};
  Barrier *const rows_full = (Barrier *)(shared + {barriers}), *const rows_empty = rows_full + 1;
  Barrier *const keys_full = rows_empty + 1, *const keys_empty = keys_full + {stages};
  Barrier *const values_full = keys_empty + {stages}, *const values_empty = values_full + {stages};
  Barrier *const turns = values_empty + {stages};
  if (t == 0) {{
    barrier_start(rows_full, 1);
    barrier_start(rows_empty, {warps});
    for (int s = 0; s < {stages}; s++) {{
      barrier_start(keys_full + s, 1);
      barrier_start(keys_empty + s, {warps});
      barrier_start(values_full + s, 1);
      barrier_start(values_empty + s, {warps});
    }}
    // Each warp says for itself that it has multiplied.
    for (int g = 0; g < {groups}; g++) barrier_start(turns + g, 4);
    barriers_started();
  }}
  __syncthreads();
  // Steps of all tiles of the block go round the places in shared memory.
  u32 rows_phase = 0, slot = 0, slot_phase = 0, before = 0, before_phase = 0;
{producer}  registers_more<{more}>();
  u32 turn = 0;
{first_turn}{declared}{tiles}    const i64 warp_row = row0 + warp * 16;
{scale}{fetch}{steps}{end}{result}  }}
}}
"#,
        functions = functions(class),
        threads = class.threads(),
        words = slots.end,
        element = stored(class.dtype),
        barriers = class.barriers_at(),
        warps = class.block.warps,
        producer = producer(class, slots, factors, texts),
        more = warpgroup::registers(groups, less(groups)),
        first_turn = match turns(class) {
            Turns::Met => format!("  first_turn<{groups}>(group);\n"),
            _ => String::new(),
        },
        declared = texts.declared,
        tiles = tiles(class, texts),
        scale = texts.scale,
        fetch = texts.fetch,
        steps = steps(class, texts),
        end = texts.end,
        result = texts.result,
    )
}
