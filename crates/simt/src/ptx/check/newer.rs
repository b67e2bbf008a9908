//! Instructions that are known, and not emulated.

use super::super::{Error, shown};

/// Beginnings of names, and what the instructions need.
const NEWER: &[(&str, &str)] = &[
    ("barrier.cluster", "sm_90"),
    ("clusterlaunchcontrol", "sm_100"),
    ("cp.async.bulk", "sm_90"),
    ("cp.reduce.async", "sm_90"),
    ("elect", "sm_90"),
    ("fence.mbarrier_init", "sm_90"),
    ("fence.proxy", "sm_90"),
    ("getctarank", "sm_90"),
    ("griddepcontrol", "sm_90"),
    ("mapa", "sm_90"),
    ("mbarrier.complete_tx", "sm_90"),
    ("mbarrier.expect_tx", "sm_90"),
    ("mbarrier.try_wait", "sm_90"),
    ("multimem", "sm_90"),
    ("red.async", "sm_90"),
    ("setmaxnreg", "sm_90"),
    ("st.async", "sm_90"),
    ("st.bulk", "sm_100"),
    ("stmatrix", "sm_90"),
    ("tcgen05", "sm_100"),
    ("tensormap", "sm_90"),
    ("wgmma", "sm_90"),
];

/// Those that are as old as others, by the first word.
const NOT_EMULATED: &[&str] = &[
    "alloca",
    "fns",
    "istypep",
    "lop",
    "mov.b128",
    "movmatrix",
    "stackrestore",
    "stacksave",
    "suld",
    "suq",
    "sured",
    "sust",
    "szext",
    "tex",
    "tld4",
    "txq",
    "vabsdiff",
    "vabsdiff2",
    "vabsdiff4",
    "vadd",
    "vadd2",
    "vadd4",
    "vavrg2",
    "vavrg4",
    "vmad",
    "vmax",
    "vmax2",
    "vmax4",
    "vmin",
    "vmin2",
    "vmin4",
    "vset",
    "vset2",
    "vset4",
    "vshl",
    "vshr",
    "vsub",
    "vsub2",
    "vsub4",
];

/// Modifiers that make any instruction one that is not emulated.
const MODIFIERS: &[(&str, &str)] = &[
    ("cluster", "sm_90"),
    ("shared::cluster", "sm_90"),
    ("expect_tx", "sm_90"),
    ("async", "sm_90"),
    ("b128", "128-bit registers"),
    ("e4m3x2", "8-bit floats"),
    ("e5m2x2", "8-bit floats"),
    ("e2m1x2", "4-bit floats"),
    ("e2m3x2", "6-bit floats"),
    ("e3m2x2", "6-bit floats"),
    ("ue8m0x2", "8-bit floats"),
];

/// Why an instruction is refused, if it is one of those.
pub(super) fn refusal(name: &str, line: u32) -> Option<Error> {
    let begins = |start: &str| {
        name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
    };
    let newer = |needs| Some(Error::Newer { line, what: shown(name), needs });
    if let Some((_, needs)) = NEWER.iter().find(|(start, _)| begins(start)) {
        return newer(needs);
    }
    if NOT_EMULATED.iter().any(|start| begins(start)) {
        return Some(Error::NotEmulated { line, what: shown(name) });
    }
    let is_async_copy = begins("cp.async");
    let modifier = |word: &str| {
        MODIFIERS.iter().find(|(modifier, _)| word == *modifier && !(is_async_copy && word == "async"))
    };
    name.split('.').find_map(modifier).and_then(|(_, needs)| newer(needs))
}
