//! A training run that is killed at any moment resumes to the same bits.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use thalweg_nn::Checkpoint;
use thalweg_nn::optim::{Adam, Optimizer};
use thalweg_nn::prelude::*;

/// Environment variable: folder in which a child process of this test trains; unset in the test itself.
const FOLDER: &str = "TRAINING_FOLDER_OF_THIS_TEST";
const STEPS: u64 = 400;

fn file(folder: &Path) -> PathBuf {
    folder.join("run.checkpoint")
}

/// Trains from the checkpoint if there is one, else from the start, and saves after every step.
fn train(folder: &Path) {
    thalweg::set_reproducible(true);
    manual_seed(5);
    let mut net = Sequential::new().push(Linear::new(6, 32)).push(Dropout::new(0.1)).push(Linear::new(32, 3));
    let mut optimizer = Adam::new(1e-2);
    let mut step = 0;
    if let Ok(saved) = Checkpoint::load(file(folder)) {
        net.load_state_dict(&saved.part("model")).unwrap();
        optimizer.load_state_dict(&saved.part("optimizer")).unwrap();
        saved.restore_random().unwrap();
        step = saved.get("step").unwrap();
    }
    while step < STEPS {
        let x = Tensor::randn([16, 6]);
        let classes = x.narrow(1, 0, 3).argmax(1);
        let loss = net.forward(&x).cross_entropy(&classes, Reduction::Mean);
        optimizer.step(&mut net, &loss.backward());
        step += 1;
        let mut saved = Checkpoint::new();
        saved.put("model", net.state_dict());
        saved.put("optimizer", optimizer.state_dict());
        saved.set("step", step);
        saved.save(file(folder)).unwrap();
    }
}

/// Starts a process that runs this test in a folder.
fn start(folder: &Path) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_run_that_is_killed_20_times_ends_the_same"]).env(FOLDER, folder);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn step_of(folder: &Path) -> u64 {
    // The file is complete, whenever its writer was killed.
    if file(folder).exists() { Checkpoint::load(file(folder)).unwrap().get("step").unwrap() } else { 0 }
}

#[test]
fn a_run_that_is_killed_20_times_ends_the_same() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return train(Path::new(&folder));
    }
    let folders = ["whole", "killed"].map(|name| {
        let folder = std::env::temp_dir().join(format!("thalweg-killed-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    });
    let [whole, killed] = &folders;
    assert!(start(whole).wait().unwrap().success());
    let mut random = Generator::seed(1);
    let mut reached = 0;
    for _ in 0..20 {
        let mut child = start(killed);
        // Wait for progress, then kill at a random moment.
        while step_of(killed) <= reached && reached < STEPS && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let more = random.randint(0..20_000, [0; 0]).item::<i64>().unwrap();
        std::thread::sleep(Duration::from_micros(more as u64));
        let _ = child.kill();
        child.wait().unwrap();
        let step = step_of(killed);
        assert!(step >= reached);
        reached = step;
    }
    assert!(start(killed).wait().unwrap().success());
    let [a, b] = [whole, killed].map(|folder| Checkpoint::load(file(folder)).unwrap());
    assert_eq!((step_of(whole), step_of(killed)), (STEPS, STEPS));
    for part in ["model", "optimizer"] {
        let (a, b) = (a.part(part), b.part(part));
        assert_eq!(a.len(), b.len());
        for (name, tensor) in a.iter() {
            let other = b.get(name).unwrap().to_npy_bytes().unwrap();
            assert!(tensor.to_npy_bytes().unwrap() == other, "{part}.{name} is not what it was without interruption");
        }
    }
    // A killed writer leaves its temporary file; there are no other files.
    for entry in std::fs::read_dir(killed).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "run.checkpoint" || name.ends_with(".unfinished"), "{name}");
    }
    folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
}
