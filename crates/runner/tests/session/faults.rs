//! Every way to fail is told from every other.

use tribunal_contract::{Fault, StateId};
use tribunal_runner::{SessionLimits, Trouble};

use crate::toy::{
    Example, Toy, c, c_source, fault_of, forward, limits, outcome_of, python, python_module, start, toy,
    try_start,
};

fn crash(signal: &str) -> Fault {
    Fault::Crashed { signal: signal.into(), at_input: false, said: String::new() }
}

fn refused(message: &str) -> Fault {
    Fault::Refused { message: message.into() }
}

fn wrong(message: &str) -> Fault {
    Fault::WrongResult { message: message.into() }
}

/// Runs every row, and then reports all that went wrong.
fn check(rows: Vec<(Toy, Fault)>) {
    let mut wrong = Vec::new();
    for (toy, expected) in rows {
        let Some(got) = outcome_of(&toy, limits()) else { return };
        if got != Err(Trouble::Fault(expected.clone())) {
            wrong.push(format!("expected {expected:?}\n     got {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn python_faults_are_told_apart() {
    check(vec![
        (python("raise ValueError('no\\x1b[31m\\u202e red')"), refused("ValueError: no[31m red")),
        (python("raise KeyboardInterrupt"), refused("KeyboardInterrupt")),
        (python("sys.exit(3)"), Fault::Exited { code: 3 }),
        (python("sys.exit('why')"), Fault::Exited { code: 1 }),
        (python("os._exit(0)"), Fault::Exited { code: 0 }),
        (python("os.abort()"), crash("SIGABRT")),
        (python("import ctypes; ctypes.string_at(8)"), crash("SIGSEGV")),
        (python("np.ones(1 << 40)"), Fault::Memory { limit_bytes: limits().memory_bytes }),
        (python("raise NameError('x' * 9999)"), refused(&format!("NameError: {}…", "x".repeat(389)))),
        (
            python_module("def forward(:"),
            Fault::Load { message: "SyntaxError: invalid syntax (submission.py, line 1)".into() },
        ),
        (
            python_module("import nothing_of_that_name"),
            Fault::Load { message: "ModuleNotFoundError: No module named 'nothing_of_that_name'".into() },
        ),
        (python_module("raise SystemExit(4)"), Fault::Exited { code: 4 }),
        (python_module("forward = 5"), Fault::Load { message: "`forward` is missing".into() }),
    ]);
}

#[test]
fn wrong_python_results_say_what_was_due_and_what_came() {
    check(vec![
        (python("return None"), wrong("expected 2 results, got NoneType")),
        (python("return x"), wrong("expected 2 results, got ndarray")),
        (python("return x, x, None"), wrong("expected 2 results, got 3")),
        (python("return x.astype(np.float64), None"), wrong("y: expected float32(2, 3), got float64(2, 3)")),
        (python("return x.T, None"), wrong("y: expected float32(2, 3), got float32(3, 2)")),
        (python("return x.astype('>f4'), None"), wrong("y: expected float32(2, 3), got >f4(2, 3)")),
        (python("return x.tolist(), None"), wrong("y: expected float32(2, 3), got list")),
        (python("return 1.5, None"), wrong("y: expected float32(2, 3), got float")),
    ]);
}

#[test]
fn native_faults_are_told_apart() {
    let message = "snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, \"D is %d\", 3); return 2;";
    check(vec![
        (c(message), refused("D is 3")),
        (c("return -5;"), refused("status -5, without a message")),
        (c("*(volatile int *)8 = 1;"), crash("SIGSEGV")),
        (c("raise(SIGSEGV);"), crash("SIGSEGV")),
        (c("abort();"), crash("SIGABRT")),
        (
            c("fputs(\"first\\n\", stderr); fputs(\"a \\x1b[31mheap\\n\\n\", stderr); abort();"),
            Fault::Crashed { signal: "SIGABRT".into(), at_input: false, said: "a [31mheap".into() },
        ),
        (c("__builtin_trap();"), crash("SIGILL")),
        (c("volatile int zero = 0; zero = args->x->ndim / zero;"), crash("SIGFPE")),
        (c("exit(9);"), Fault::Exited { code: 9 }),
        (c("_exit(0);"), Fault::Exited { code: 0 }),
        (
            c(
                "int deep(int n) { volatile char a[1 << 16]; a[n & 1023] = 1; return deep(n + 1) + a[n & 511]; } return deep(0);",
            ),
            crash("SIGSEGV"),
        ),
        (
            c_source("#include \"tribunal.h\"\nuint32_t tribunal_abi(void) { return 99; }"),
            Fault::Load { message: "made for version 99 of the calling convention, this is 1".into() },
        ),
        (
            c_source("int nothing;"),
            Fault::Load { message: "the symbol `tribunal_forward` is missing".into() },
        ),
        (
            c_source(
                "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { _Exit(5); }",
            ),
            Fault::Exited { code: 5 },
        ),
    ]);
}

#[test]
fn a_library_that_is_none_does_not_load() {
    let Some(fault) = fault_of(&toy("c", "k.so", &[("k.so", "not an ELF file")]), limits()) else { return };
    assert!(matches!(&fault, Fault::Load { message } if message.contains("k.so")), "{fault:?}");
}

#[test]
fn refusals_and_wrong_results_leave_the_session_alive() {
    let toy = python(
        "if x[0, 0] == 1: raise ValueError('one')\nif x[0, 0] == 2: return x\nif x[0, 0] == 3: np.ones(1 << 40)",
    );
    let Some(mut session) = start(&toy) else { return };
    let mut example = Example::new(1, 1);
    for (value, alive) in [(1.0, false), (0.0, true), (2.0, false), (0.0, true), (3.0, false), (0.0, true)] {
        example.x = tribunal_contract::Tensor::from_f64(tribunal_contract::DType::Float32, [1, 1], &[value]);
        assert_eq!(forward(&mut session, &example, StateId(0)).is_ok(), alive, "{value}");
        assert_eq!(session.dead(), None);
        if alive {
            session.release(StateId(0)).unwrap();
        }
    }
}

#[test]
fn what_does_not_end_is_ended() {
    let slow = SessionLimits { call_s: 0.3, load_s: 1.0, ..SessionLimits::default() };
    let rows = [
        (python("while True: pass"), 0.3),
        (python("time.sleep(60)"), 0.3),
        (c("for (volatile int on = 1; on;) { }"), 0.3),
        (python_module("while True: pass"), 1.0),
        (python("threading.Thread(target=time.sleep, args=(60,)).start()\ntime.sleep(60)"), 0.3),
    ];
    for (toy, limit_s) in rows {
        let begun = std::time::Instant::now();
        let Some(fault) = fault_of(&toy, slow.clone()) else { return };
        assert_eq!(fault, Fault::Deadline { limit_s });
        assert!(begun.elapsed().as_secs_f64() < 10.0);
    }
}

#[test]
fn a_flood_is_stopped() {
    let limits = SessionLimits { output_bytes: 100_000, ..limits() };
    for toy in [
        python("while True: print('x' * 1000)"),
        c("for (;;) puts(\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\");"),
    ] {
        let Some(fault) = fault_of(&toy, limits.clone()) else { return };
        assert_eq!(fault, Fault::Flood { limit_bytes: 100_000 });
    }
}

#[test]
fn memory_is_limited_in_every_language() {
    let limits = SessionLimits { memory_bytes: 64 << 20, ..limits() };
    let memory = Fault::Memory { limit_bytes: 64 << 20 };
    let Some(fault) = fault_of(&python("np.ones(512 << 20, np.uint8)"), limits.clone()) else { return };
    assert_eq!(fault, memory);
    // C is told by a null pointer, and may say so itself.
    let c_body = "char *p = malloc(512 << 20); if (!p) { strcpy(args->message, \"no memory\"); return 1; } memset(p, 1, 512 << 20);";
    let Some(fault) = fault_of(&c(c_body), limits.clone()) else { return };
    assert_eq!(fault, refused("no memory"));
    // C++ throws, and nobody catches.
    let source = "#include \"tribunal.h\"\n#include <vector>\nstatic int work() noexcept { return std::vector<char>(512 << 20, 1)[5]; }\n\
                  extern \"C\" int32_t tribunal_forward(tribunal_forward_args *) { return work(); }";
    let header = tribunal_contract::emit::c_header(&tribunal_contract::challenges::LAYER_NORM_BACKWARD);
    let cpp = toy("c", "k.cc", &[("k.cc", source), ("tribunal.h", &header)]);
    let Some(fault) = fault_of(&cpp, limits) else { return };
    assert_eq!(fault, memory);
}

#[test]
fn a_missing_operation_is_no_reason_to_die() {
    let toy = python_module("import numpy as np\ndef forward(x, gamma, beta, eps): return x * 0, 1\n");
    let Some(mut session) = start(&toy) else { return };
    assert_eq!(session.operations(), ["forward"]);
    forward(&mut session, &Example::new(1, 2), StateId(0)).unwrap();
    let dy = Example::new(1, 2).x;
    let trouble = crate::toy::backward(&mut session, &dy, StateId(0)).unwrap_err();
    assert_eq!(trouble, Trouble::Fault(Fault::Load { message: "`backward` is missing".into() }));
    forward(&mut session, &Example::new(1, 2), StateId(1)).unwrap();
}

#[test]
fn a_submission_that_fails_to_load_can_be_tried_again() {
    let toy = python_module("raise OSError('later')");
    for _ in 0..2 {
        let Some(started) = try_start(&toy, limits()) else { return };
        assert_eq!(started.unwrap_err(), Trouble::Fault(Fault::Load { message: "OSError: later".into() }));
    }
}
