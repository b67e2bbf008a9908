//! Which layers hold.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A layer of the cage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The system calls that the program may make.
    Seccomp,
    /// The files, ports and processes that it may reach, by the kernel's access rules.
    Landlock,
    /// Views of its own of files, processes, network and the rest.
    Namespaces,
    /// A `/proc` of its own, inside the namespaces.
    Procfs,
    /// A user that owns nothing and shares its limits with nobody, and no capabilities.
    Identity,
    /// Limits on memory, processor time, files and tasks.
    Limits,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
            Self::Procfs => "procfs",
            Self::Identity => "user",
            Self::Limits => "limits",
        })
    }
}

/// How well a cage is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// System calls, access rules and namespaces.
    A,
    /// System calls and access rules: the usual container.
    B,
    /// System calls and namespaces: a kernel without Landlock.
    C,
    /// System calls alone: files are readable. Refused unless the submission is trusted.
    D,
    /// Not even system calls are restricted. Refused always.
    E,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::A => "A (full)",
            Self::B => "B (container)",
            Self::C => "C (no Landlock)",
            Self::D => "D (files are readable)",
            Self::E => "E (no seccomp)",
        })
    }
}

/// Whether a layer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerState {
    /// The layer.
    pub layer: Layer,
    /// Whether it holds.
    pub on: bool,
    /// What holds, or why it does not.
    pub detail: String,
    /// Where it does not hold: what that costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Where it does not hold: how to turn it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl LayerState {
    /// A layer that holds.
    pub fn on(layer: Layer, detail: impl Into<String>) -> Self {
        Self { layer, on: true, detail: detail.into(), cost: None, remedy: None }
    }

    /// A layer that does not hold.
    pub fn off(
        layer: Layer,
        detail: impl Into<String>,
        cost: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { layer, on: false, detail: detail.into(), cost: Some(cost.into()), remedy: Some(remedy.into()) }
    }

    /// A layer that was left off because the judge was told to.
    pub fn left_off(layer: Layer, cost: impl Into<String>) -> Self {
        Self::off(layer, "left off as asked", cost, "do not ask for it to be left off")
    }
}

/// The cage that a program ran in. Part of every verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// How well it was closed.
    pub tier: Tier,
    /// Every layer, in the order in which they were put on.
    pub layers: Vec<LayerState>,
}

impl Applied {
    /// Grades a set of layers. A layer that is not listed does not hold.
    pub fn of(layers: Vec<LayerState>) -> Self {
        let on = |layer| layers.iter().any(|state| state.layer == layer && state.on);
        let tier = match (on(Layer::Seccomp), on(Layer::Landlock), on(Layer::Namespaces)) {
            (false, _, _) => Tier::E,
            (true, true, true) => Tier::A,
            (true, true, false) => Tier::B,
            (true, false, true) => Tier::C,
            (true, false, false) => Tier::D,
        };
        Self { tier, layers }
    }

    /// Whether `layer` holds.
    pub fn has(&self, layer: Layer) -> bool {
        self.layers.iter().any(|state| state.layer == layer && state.on)
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cage tier {}", self.tier)?;
        for LayerState { layer, on, detail, cost, remedy } in &self.layers {
            writeln!(f, "  {layer:<11} {} {detail}", if *on { "ok " } else { "OFF" })?;
            for (label, text) in [("cost", cost), ("to turn on", remedy)] {
                if let Some(text) = text {
                    writeln!(f, "  {:<15} {label}: {text}", "")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_follow_from_three_layers() {
        let tier_of = |layers: &[Layer]| {
            Applied::of(layers.iter().map(|layer| LayerState::on(*layer, "")).collect()).tier
        };
        assert_eq!(tier_of(&[Layer::Seccomp, Layer::Landlock, Layer::Namespaces]), Tier::A);
        assert_eq!(tier_of(&[Layer::Seccomp, Layer::Landlock]), Tier::B);
        assert_eq!(tier_of(&[Layer::Seccomp, Layer::Namespaces]), Tier::C);
        assert_eq!(tier_of(&[Layer::Seccomp, Layer::Limits, Layer::Identity]), Tier::D);
        assert_eq!(tier_of(&[Layer::Landlock, Layer::Namespaces]), Tier::E);
    }

    #[test]
    fn a_layer_that_is_off_says_why_what_it_costs_and_how_to_turn_it_on() {
        let off = LayerState::off(Layer::Landlock, "ENOSYS", "files", "a kernel of 5.13 or later");
        let text = Applied::of(vec![off]).to_string();
        assert!(text.contains("OFF ENOSYS"), "{text}");
        assert!(text.contains("cost: files") && text.contains("to turn on: a kernel"), "{text}");
    }
}
