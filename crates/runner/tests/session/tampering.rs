//! Hosts that lie: everything in a host's process belongs to the submission, its end of the conversation too.

use tribunal_contract::{Fault, StateId};
use tribunal_runner::Trouble;

use crate::toy::{Example, Toy, c, forward, limits, python, python_module, start, try_start};

/// What comes of starting a submission, calling `forward` twice and releasing a state.
fn run(toy: &Toy) -> Option<Result<(), Trouble>> {
    Some(try_start(toy, limits())?.and_then(|mut session| {
        let example = Example::new(2, 3);
        forward(&mut session, &example, StateId(0))?;
        session.release(StateId(0))?;
        forward(&mut session, &example, StateId(1)).map(drop)
    }))
}

/// A module that replaces the host's way to speak: `lie(packet)` gives what is sent for an honest packet.
fn liar(lie: &str) -> Toy {
    python_module(&format!(
        r#"
import __main__ as host, json, os
import numpy as np
real_write = os.write
class Liar:
    def __init__(self, judge): self.judge = judge
    def send(self, packet):
        packet = lie(packet)
        return packet is None or self.judge.send(packet)
    def __getattr__(self, name): return getattr(self.judge, name)
host.JUDGE = Liar(host.JUDGE)
os.write = lambda fd, packet: real_write(fd, lie(packet)) if fd == 3 else real_write(fd, packet)
def lie(packet):
    {lie}
    return packet
def forward(x, gamma, beta, eps): return np.zeros_like(x), None
"#
    ))
}

#[test]
fn a_lie_in_any_message_is_seen() {
    let lies = [
        ("loaded", "if b'loaded' in packet: return b'{\"t\":\"mapped\"}'"),
        ("mapped", "if b'mapped' in packet: return b'{\"t\":\"ready\"}'"),
        ("ready", "if b'ready' in packet: return b'{\"t\":\"ready\",\"extra\":1}'"),
        ("a DONE of another call", "if packet[:4] == b'TDN1': return packet[:8] + b'12345678' + packet[16:]"),
        ("a DONE with a tail", "if packet[:4] == b'TDN1': return packet + b'x'"),
        ("JSON for DONE", "if packet[:4] == b'TDN1': return b'{\"t\":\"ready\"}'"),
        ("a status that is none", "if packet[:4] == b'TDN1': return packet[:16] + b'\\x07' + packet[17:]"),
        (
            "a failure without a problem",
            "if packet[:4] == b'TDN1': return packet[:16] + b'\\x01' + packet[17:]",
        ),
        (
            "a problem without a failure",
            "if b'settled' in packet: return b'{\"t\":\"settled\",\"problem\":{\"kind\":\"refused\",\"message\":\"\"}}'",
        ),
        (
            "a word on the inputs",
            "if b'settled' in packet: return b'{\"t\":\"settled\",\"changed\":[],\"problem\":null}'",
        ),
        ("nested JSON", "if b'settled' in packet: return b'[' * 60000"),
        ("released", "if b'released' in packet: return b'{\"t\":\"settled\",\"problem\":null}'"),
        ("noise", "if b'ready' in packet: return bytes(range(256))"),
        ("a longer packet than any", "if b'ready' in packet: return packet + b' ' * 70000 + b'}'"),
    ];
    let mut believed = Vec::new();
    for (what, lie) in lies {
        match run(&liar(lie)) {
            None => return,
            Some(Err(Trouble::Fault(Fault::Protocol { message }))) if !message.contains('\u{1b}') => {}
            Some(other) => believed.push(format!("{what}: {other:?}")),
        }
    }
    assert!(believed.is_empty(), "{}", believed.join("\n"));
    run(&liar("pass")).unwrap().unwrap();
}

#[test]
fn words_out_of_turn_are_seen() {
    let bodies = [
        "os.write(3, b'junk')",
        "for _ in range(50): os.write(3, b'x' * 60000)",
        "os.write(3, b'{\"t\":\"settled\",\"problem\":null}')",
        "import _socket, array\ntry: host = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, 3); \
         host.sendmsg([b'fds'], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array('i', [1, 2]))])\n\
         except PermissionError: os.write(3, b'denied')",
    ];
    for body in bodies {
        let Some(result) = run(&python(body)) else { return };
        assert!(matches!(result, Err(Trouble::Fault(Fault::Protocol { .. }))), "{body}: {result:?}");
        let Some(result) = run(&python_module(&format!("import os\n{body}\ndef forward(*a): pass"))) else {
            return;
        };
        assert!(matches!(result, Err(Trouble::Fault(Fault::Protocol { .. }))), "at load: {body}: {result:?}");
    }
}

#[test]
fn hanging_up_and_going_on_is_tampering() {
    let Some(result) = run(&python("os.close(3)\ntime.sleep(60)")) else { return };
    assert!(matches!(result, Err(Trouble::Fault(Fault::Protocol { .. }))), "{result:?}");
}

/// Says DONE for the call under way, as the host would.
const FORGE: &str = "frame = sys._getframe()\nwhile 'go' not in frame.f_locals: frame = frame.f_back\n\
                     done = lambda: os.write(3, b'TDN1' + frame.f_locals['go'][4:] + bytes(8))\n";

#[test]
fn a_forged_done_meets_poison_or_is_out_of_turn() {
    // Done is said first; the work and the host's own DONE come later.
    let Some(result) = run(&python(&format!("{FORGE}done()\ntime.sleep(0.2)"))) else { return };
    assert!(matches!(result, Err(Trouble::Fault(Fault::Protocol { .. }))), "{result:?}");

    // The submission takes the host's part to the end of the call, and computes at leisure: all there is to see is
    // that nothing had been computed at DONE, and that something was there later.
    let late = "done()\nos.read(3, 64)\nframe.f_locals['call'].results[0][1][...] = 0\n\
                os.write(3, b'{\"t\":\"settled\",\"problem\":null}')\ntime.sleep(60)";
    let Some(mut session) = start(&python(&format!("{FORGE}{late}"))) else { return };
    let answer = forward(&mut session, &Example::new(20, 30), StateId(0)).unwrap();
    let seen = answer.outputs[0].to_f64();
    assert!(seen.iter().all(|value| *value < -1e29), "poison, not zeros: {}", seen[0]);
    assert!(answer.changed_late, "zeros were there when the call was settled");
}

#[test]
fn outputs_that_change_after_done_are_seen() {
    let body = r#"
        #include <pthread.h>
        static float *y; static int64_t n;
        static void *later(void *unused) { usleep(3000); for (int64_t i = 0; i < n; i++) y[i] = 1; return unused; }
        int32_t tribunal_forward(tribunal_forward_args *args) {
            pthread_t thread;
            y = args->y->data; n = args->y->shape[0] * args->y->shape[1];
            for (int64_t i = 0; i < n; i++) y[i] = 0;
            pthread_create(&thread, 0, later, 0);
            for (int64_t i = 0; i < args->x->shape[0]; i++) ((float *)args->x->data)[i] = 0;
            return 0;
        }
    "#;
    let source = format!("#include \"tribunal.h\"\n#include <unistd.h>\n{body}");
    let Some(mut session) = start(&crate::toy::c_source(&source)) else { return };
    // Large enough for the copy to take longer than the thread waits.
    let answer = forward(&mut session, &Example::new(2048, 4096), StateId(0)).unwrap();
    assert!(answer.changed_late);
    assert_eq!(answer.inputs_changed, [0]);
}

#[test]
fn writes_around_an_output_are_seen() {
    for write in ["y[-1] = 0", "y[6] = 0", "((char *)y)[-1] = 0", "y[6 + 200] = 0"] {
        let Some(mut session) = start(&c(&format!("float *y = args->y->data; memset(y, 0, 24); {write};")))
        else {
            return;
        };
        let answer = forward(&mut session, &Example::new(2, 3), StateId(0)).unwrap();
        assert!(answer.wrote_outside, "{write}");
    }
}

#[test]
fn writes_to_inputs_are_seen() {
    let toys = [
        python("gamma += 1\nbeta[...] = beta"),
        python("x.shape = (6,)\ngamma[0] = 9\nreturn np.zeros((2, 3), np.float32), None"),
        c("((float *)args->gamma->data)[2] = 7;"),
    ];
    for toy in toys {
        let Some(mut session) = start(&toy) else { return };
        let answer = forward(&mut session, &Example::new(2, 3), StateId(0)).unwrap();
        assert_eq!(answer.inputs_changed, [1]);
    }
}

/// A host that the submission has taken over: whatever it holds when it says that it is ready, `seen` holds a copy of.
const SEES_WHAT_IS_PREPARED: &str = "\
import sys, time, threading, numpy as np
host, seen = sys.modules['__main__'], []
said = host.say
def say(kind, **fields):
    if kind == 'ready': seen.append(sys._getframe(1).f_locals['call'].arguments[0].copy())
    said(kind, **fields)
host.say = say
";

#[test]
fn nothing_of_the_inputs_is_known_before_the_clock_runs() {
    let body = "def forward(x, gamma, beta, eps): return seen[-1], None";
    let Some(mut session) = start(&python_module(&format!("{SEES_WHAT_IS_PREPARED}{body}"))) else { return };
    for state in 0..3 {
        let answer = forward(&mut session, &Example::new(20, 30), StateId(state)).unwrap();
        assert_eq!(answer.outputs[0].to_f64(), [0.0; 600]);
    }
}

#[test]
fn work_while_the_inputs_are_written_counts() {
    let spin = "\
        #include <pthread.h>
        static void *spin(void *unused) { for (;;) { } return unused; }
        static pthread_t thread;
        /* Several, as one thread may wait for a busy machine all the while. */
        __attribute__((constructor)) static void start(void)
        { for (int i = 0; i < SPINS; i++) pthread_create(&thread, 0, spin, 0); }
        int32_t tribunal_forward(tribunal_forward_args *args) { return 0; }
    ";
    // To write 32 MiB takes some milliseconds. A busy machine does not run the threads in each of them, and now and then runs them before a
    // host hears of its call: so a third of the calls must tell.
    let example = Example::new(2048, 4096);
    for spins in [0, 4] {
        let source = format!("#define SPINS {spins}\n#include \"tribunal.h\"\n{spin}");
        let Some(mut session) = start(&crate::toy::c_source(&source)) else { return };
        let worked_s = |state| {
            let answer = forward(&mut session, &example, StateId(state)).unwrap();
            // It counts on both clocks.
            answer.cpu_s.min(answer.wall_s)
        };
        let mut worked_s: Vec<f64> = (0..15).map(worked_s).collect();
        worked_s.sort_by(f64::total_cmp);
        assert_eq!(worked_s[10] > 1e-3, spins > 0, "{worked_s:?}");
    }
}

/// What happens after the word that a call is done, nobody waits for.
#[test]
fn inputs_put_back_after_the_call_were_changed() {
    let body = "x *= 2\ndone()\ntime.sleep(0.2)\nx *= 0.5\nos.read(3, 64)\n\
                os.write(3, b'{\"t\":\"settled\",\"problem\":null}')\ntime.sleep(60)";
    let Some(mut session) = start(&python(&format!("{FORGE}{body}"))) else { return };
    let answer = forward(&mut session, &Example::new(20, 30), StateId(0)).unwrap();
    assert_eq!(answer.inputs_changed, [0]);
}

#[test]
fn clocks_inside_do_not_matter() {
    let body =
        "time.perf_counter = time.monotonic = time.time = time.perf_counter_ns = lambda: 0\ntime.sleep(0.05)";
    let Some(mut session) = start(&python(body)) else { return };
    let answer = forward(&mut session, &Example::new(2, 3), StateId(0)).unwrap();
    assert!(answer.wall_s >= 0.05 && answer.wall_s < 5.0, "{}", answer.wall_s);
    assert!(answer.cpu_s < answer.wall_s, "sleeping costs no processor time: {answer:?}");
}

#[test]
fn work_behind_the_judges_back_is_on_the_kernels_books() {
    let spin = "def spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()";
    let window = std::time::Duration::from_millis(100);
    let Some(mut busy) = start(&python(spin)) else { return };
    forward(&mut busy, &Example::new(2, 3), StateId(0)).unwrap();
    let burnt = busy.idle_cpu_s(window).unwrap();
    assert!(burnt > 0.01, "{burnt}");
    let Some(mut idle) = start(&python("pass")) else { return };
    forward(&mut idle, &Example::new(2, 3), StateId(0)).unwrap();
    let burnt = idle.idle_cpu_s(window).unwrap();
    assert!(burnt < 0.002, "{burnt}");
}

#[test]
fn doing_nothing_is_never_yesterdays_right_answer() {
    let Some(mut session) = start(&c("static int calls; if (calls++ == 0) memset(args->y->data, 0, 24);"))
    else {
        return;
    };
    let example = Example::new(2, 3);
    assert_eq!(forward(&mut session, &example, StateId(0)).unwrap().outputs[0].to_f64(), [0.0; 6]);
    let second = forward(&mut session, &example, StateId(1)).unwrap();
    assert!(second.outputs[0].to_f64().iter().all(|value| *value < -1e29));
    assert!(!second.changed_late);
}
