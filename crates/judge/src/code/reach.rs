//! What can be reached from the entry points, by name.

use std::collections::{HashMap, HashSet};

use super::facts::{Scan, Shared};
use super::names::NameId;

/// Definitions that nothing alive mentions, the outermost only, in the order of the source.
pub(super) fn unused(shared: &Shared) -> Vec<usize> {
    let alive = alive(shared);
    (0..shared.definitions.len())
        .filter(|&i| !alive[i] && shared.definitions[i].parent.is_none_or(|parent| alive[parent]))
        .collect()
}

fn alive(shared: &Shared) -> Vec<bool> {
    let definitions = &shared.definitions;
    let classes: HashSet<NameId> = definitions.iter().filter(|d| d.class).map(|d| d.name).collect();
    let mut named: HashMap<NameId, Vec<usize>> = HashMap::new();
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut mentions: HashMap<Option<usize>, Vec<NameId>> = HashMap::new();
    for (i, definition) in definitions.iter().enumerate() {
        named.entry(definition.name).or_default().push(i);
        if let Some(parent) = definition.parent {
            children.entry(parent).or_default().push(i);
        }
    }
    for &(owner, name) in &shared.mentions {
        mentions.entry(owner).or_default().push(name);
    }

    // A base class from elsewhere may keep a list of what derives from it; a macro's name may be somebody's function.
    let wanted_of_itself: Vec<bool> = definitions
        .iter()
        .map(|d| {
            d.kept || d.bases.iter().any(|base| !classes.contains(base)) || shared.macros.contains(&d.name)
        })
        .collect();
    let mut wanted = wanted_of_itself;
    let mut alive = vec![false; definitions.len()];
    let mut seen = vec![false; shared.names.len()];
    let mut queue: Vec<Option<usize>> = vec![None];
    let rooted = |i: &usize| definitions[*i].parent.is_none();
    for i in (0..definitions.len()).filter(|i| wanted[*i]).filter(rooted) {
        alive[i] = true;
        queue.push(Some(i));
    }
    while let Some(owner) = queue.pop() {
        let mut woken: Vec<usize> = Vec::new();
        if let Some(owner) = owner {
            woken.extend(children.get(&owner).into_iter().flatten().filter(|&&child| wanted[child]));
        }
        for &name in mentions.get(&owner).into_iter().flatten() {
            if std::mem::replace(&mut seen[name as usize], true) {
                continue;
            }
            for &i in named.get(&name).into_iter().flatten() {
                wanted[i] = true;
                if definitions[i].parent.is_none_or(|parent| alive[parent]) {
                    woken.push(i);
                }
            }
        }
        for i in woken {
            if !std::mem::replace(&mut alive[i], true) {
                queue.push(Some(i));
            }
        }
    }
    alive
}

/// Imports of a file none of whose uses are in sight: its number among the file's imports, and the names.
pub(super) fn unused_imports(scans: &[Scan], file: usize) -> Vec<(usize, Vec<NameId>)> {
    let scan = &scans[file];
    if scan.dynamic.is_some() || scans.iter().any(|scan| scan.wildcard) {
        return Vec::new();
    }
    let mut used: HashSet<NameId> = scan.mentioned.iter().copied().collect();
    for (_, other) in scans.iter().enumerate().filter(|(i, _)| *i != file) {
        used.extend(&other.taken);
    }
    scan.imports
        .iter()
        .enumerate()
        .filter_map(|(i, import)| {
            let unused: Vec<NameId> =
                import.binds.iter().copied().filter(|name| !used.contains(name)).collect();
            (!unused.is_empty()).then_some((i, unused))
        })
        .collect()
}
