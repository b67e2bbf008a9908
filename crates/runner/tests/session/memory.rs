//! Nothing of a session stays.

use std::fs;
use std::path::PathBuf;

use tribunal_contract::StateId;

use crate::toy::{Example, HONEST_C, c_source, forward, python, python_module, start};

/// Children of this process, its open descriptors, shared mappings and threads.
fn belongings() -> [usize; 4] {
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let children = fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default())
        .map(|children| children.split_whitespace().count())
        .sum();
    let mappings = fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:tribunal").count();
    [children, count("/proc/self/fd"), mappings, count("/proc/self/task")]
}

/// Runs alone in a process of its own: other tests would be counted too.
#[test]
fn fifty_sessions_leave_nothing() {
    if std::env::var_os("TRIBUNAL_TEST_ALONE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::fifty_sessions_leave_nothing", "--test-threads", "1", "--nocapture"])
            .env("TRIBUNAL_TEST_ALONE", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let temporary = || {
        let mut names: Vec<PathBuf> =
            fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names.retain(|name| name.to_string_lossy().contains("tribunal"));
        names
    };
    let honest = c_source(HONEST_C);
    let (exits, floods) = (python("os._exit(0)"), python("while True: print('x' * 1000)"));
    if start(&honest).is_none() || start(&exits).is_none() {
        return;
    }
    let (before, temporary_before) = (belongings(), temporary());
    let example = Example::new(2, 3);
    for round in 0..50 {
        let toy = match round % 10 {
            8 => &exits,
            9 => &floods,
            _ => &honest,
        };
        let mut session = start(toy).unwrap();
        let _ = forward(&mut session, &example, StateId(0));
        match round % 3 {
            0 => session.stop(),
            1 => drop(session),
            _ => session.restart().unwrap(),
        }
    }
    assert_eq!(belongings(), before);
    assert_eq!(temporary(), temporary_before);
}

#[test]
fn peak_memory_is_seen_from_outside() {
    let Some(mut session) = start(&python("big = np.ones(64 << 20, np.uint8); del big")) else { return };
    let before = session.memory().unwrap();
    forward(&mut session, &Example::new(2, 3), StateId(0)).unwrap();
    let after = session.memory().unwrap();
    assert!(after.peak_bytes >= before.anonymous_bytes + (64 << 20), "{before:?} {after:?}");
    assert!(after.anonymous_bytes < before.anonymous_bytes + (16 << 20), "{before:?} {after:?}");
}

#[test]
fn what_a_call_takes_beyond_its_inputs_is_weighed_alone() {
    // What is taken while loading must not hide what a call takes, and inputs and outputs are not counted.
    let module = |taken: &str| {
        python_module(&format!(
            "import numpy as np\nbig = np.ones(64 << 20, np.uint8)\ndel big\n\
             def forward(x, gamma, beta, eps):\n    big = np.ones({taken}, np.uint8)\n    del big\n    return x, None\n"
        ))
    };
    let (Some(mut frugal), Some(mut hungry)) = (start(&module("1")), start(&module("16 << 20"))) else {
        return;
    };
    let example = Example::new(1 << 10, 1 << 11);
    let weigh = |session: &mut tribunal_runner::Session| {
        let (_, bytes) = session.call_weighed(&example.call(StateId(0))).unwrap();
        bytes as f64 / f64::from(1 << 20)
    };
    let (little, much) = (weigh(&mut frugal), weigh(&mut hungry));
    assert!(little < 1.0, "{little} MB");
    assert!((15.5..17.0).contains(&much), "{much} MB");
}

#[test]
fn a_call_that_is_over_holds_nothing() {
    let module = "import numpy as np\ndef forward(x, gamma, beta, eps):\n    return x + 1, None\n";
    let Some(mut session) = start(&python_module(module)) else { return };
    let example = Example::new(1 << 10, 1 << 11);
    let mut look = |state| {
        forward(&mut session, &example, StateId(state)).unwrap();
        session.memory().unwrap().anonymous_bytes
    };
    look(0);
    // At once after it is over, again and again: its inputs and results take 16 MB.
    let seen: Vec<u64> = (1..=40).map(look).collect();
    let [least, most] = [seen.iter().min(), seen.iter().max()].map(|bytes| *bytes.unwrap());
    assert!(most - least < 1 << 20, "{seen:?}");
}
