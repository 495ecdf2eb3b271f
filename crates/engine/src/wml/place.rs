//! Where files may be: below the directory that was given, and nowhere else.

use std::path::{Component, Path, PathBuf};

/// The top directory of a fileset.
///
/// `directory` and `allowed` are canonical. A relative path counts from `directory`.
///
/// # Errors
/// A sentence, when it would be elsewhere.
pub fn top(directory: &Path, allowed: &[PathBuf], path: &str, name: &str) -> Result<PathBuf, String> {
    let elsewhere = |at: &Path| {
        let (place, directory) = (at.parent().unwrap_or(at).display(), directory.display());
        format!(
            "fileset {name} would be in {place}, not below {directory}; lead it there with --set, or allow the place with \
             --allow-path {place}"
        )
    };
    let wanted = directory.join(path).join(name);
    let name_is_plain =
        !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !name_is_plain || wanted.components().any(|part| part == Component::ParentDir) {
        return Err(elsewhere(&wanted));
    }
    // What is there already may be a symbolic link to elsewhere.
    let parent = wanted.parent().unwrap_or(directory);
    let there = parent.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(directory);
    let real = there.canonicalize().map_err(|error| format!("{} cannot be looked at ({error})", there.display()))?;
    let rest = parent.strip_prefix(there).unwrap_or(Path::new(""));
    let top = real.join(rest).join(Path::new(name).file_name().unwrap_or_default());
    // The place itself is not ours: a fileset that is made again is removed first, with everything in it.
    let below = |place: &Path| top.starts_with(place) && top != place;
    if below(directory) || allowed.iter().any(|place| below(place)) { Ok(top) } else { Err(elsewhere(&top)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_is_below_the_directory_is_taken() {
        let temporary = tempfile::tempdir().expect("works");
        let base = temporary.path().canonicalize().expect("works");
        let (inside, outside) = (base.join("in"), base.join("out"));
        for directory in [&inside, &outside] {
            fs::create_dir(directory).expect("works");
        }
        std::os::unix::fs::symlink(&outside, inside.join("link")).expect("works");
        let shown = |path: &Path| path.to_str().expect("text").to_owned();
        assert_eq!(top(&inside, &[], &shown(&inside), "set"), Ok(inside.join("set")));
        assert_eq!(top(&inside, &[], "a/b", "set"), Ok(inside.join("a/b/set")));
        for (path, name) in [
            (shown(&outside), "set"),
            (shown(&base), "in"),
            (shown(&inside), ".."),
            (shown(&inside), "../out"),
            (shown(&inside), "/etc"),
            (shown(&inside), ""),
            (format!("{}/../out", shown(&inside)), "set"),
            (format!("{}/link", shown(&inside)), "set"),
            (format!("{}/link/new", shown(&inside)), "set"),
        ] {
            let refused = top(&inside, &[], &path, name).expect_err("elsewhere");
            assert!(refused.contains("--allow-path"), "{path} {name}");
        }
        let allowed = [outside.clone()];
        assert_eq!(top(&inside, &allowed, &shown(&outside), "set"), Ok(outside.join("set")));
    }
}
