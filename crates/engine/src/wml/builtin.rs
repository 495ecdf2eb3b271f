//! Programs that come with the engine: our own text, with the parameters that filebench's workloads of these names have.

/// What stands before the name of one where others have the path of a file.
pub const PREFIX: &str = "builtin:";

/// Name and text.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("fileserver", include_str!("builtin/fileserver.f")),
    ("oltp", include_str!("builtin/oltp.f")),
    ("varmail", include_str!("builtin/varmail.f")),
    ("videoserver", include_str!("builtin/videoserver.f")),
    ("webproxy", include_str!("builtin/webproxy.f")),
    ("webserver", include_str!("builtin/webserver.f")),
];

/// What a program says of itself at its top: what it does, and in what it is not as published.
pub fn about(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("# "));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The text of a program.
///
/// # Errors
/// A sentence that names those that are there.
pub fn text(name: &str) -> Result<&'static str, String> {
    let found = PROGRAMS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| {
        let names: Vec<&str> = PROGRAMS.iter().map(|(known, _)| *known).collect();
        format!("There is no built-in program {name}; there are {}.", names.join(", "))
    })
}
