//! dbg
use thalweg::prelude::*;
use thalweg::counters;
fn timed(name: &str, f: impl Fn() -> Vec<Tensor> + Sync) { if std::env::args().nth(1).is_some_and(|o| o != name) { return; }

    for round in 0..2 {
        thalweg::clear_plans();
        let out = std::thread::scope(|s| s.spawn(|| { let b = counters(); let o = f(); thalweg::synchronize().unwrap(); let c = counters() - b; (o, c) }).join().unwrap());
        let c = out.1;
        println!("{name} round {round}: ops {} plan+instance {} us, compile {} us, kernels {}", c.operations, c.plan_ns / 1000, c.compile_ns / 1000, c.kernels);
    }
}
fn main() { let only = std::env::args().nth(1);

    let x = Tensor::randn([1024, 1024]);
    thalweg::synchronize().unwrap();
    timed("hub", || {
        let h = (&x * 1.5 + 0.25).tanh();
        let c0 = &h / ((&h*&h).sum_keepdim(1) + 1.0);
        let c1 = (&h - h.mean_keepdim(0)).relu();
        let c2 = (&h - h.amax_keepdim(1)).exp();
        let c3 = &h * (h.sin() * h.cos()).sum_keepdim(0);
        let c4 = &h + (&h * 3.0).tanh().mean_keepdim(1);
        let c5 = h.exp().sum_keepdim(1).log() * &h;
        let out = (c0 + c1) * (c2 + 1.0) + c3.relu() * c4 - c5;
        let s = out.sum(1);
        vec![out, s]
    });
    timed("chain300", || {
        let mut y = x.clone();
        for _ in 0..100 { y = (y * 1.0001 + 0.0001).tanh(); }
        vec![y]
    });
    timed("softmax", || {
        let e = (&x - x.amax_keepdim(1)).exp();
        vec![&e / e.sum_keepdim(1)]
    });
    timed("layernorm", || {
            let centred = &x - x.mean_keepdim(1);
            let variance = (&centred * &centred).mean_keepdim(1);
        vec![centred / (variance + 1e-5).sqrt()]
    });
    let w = Tensor::randn([64, 64]);
    let v = Tensor::randn([64, 64]);
    timed("500 blocks", || {
        let mut y = v.clone();
        for i in 0..25 {
            let h = y.matmul(&w);
            let m = h.mean_keepdim(1);
            let c = &h - m;
            let n = &c / ((&c * &c).mean_keepdim(1) + 1e-5).sqrt();
            let g = n.gelu();
            let e = (&g - g.amax_keepdim(1)).exp();
            let s = &e / e.sum_keepdim(1);
            y = if i % 2 == 0 { s + &y } else { s * 2.0 };
            let z = &y.t() + 1.0;
            y = z.t() + &y;
        }
        vec![y]
    });
}
