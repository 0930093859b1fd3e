//! The zone of a pod.

/// Whether a text can be the name of a zone: what a label of Kubernetes may have as its value, but not nothing.
///
/// Source: *Labels and Selectors*, Syntax and character set, of the documentation of Kubernetes.
#[must_use]
pub fn is_zone(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= ZONE_MAX
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|c| is_end(c) || matches!(c, '-' | '_' | '.'))
}

/// The longest name of a zone: a label of Kubernetes has no longer value.
pub const ZONE_MAX: usize = 63;

/// What [`is_zone`] asks for.
pub const ZONE: &str =
    "1 to 63 letters, digits, `-`, `_` and `.`, with a letter or a digit first and last";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_the_value_of_a_label() {
        let longest = "z".repeat(ZONE_MAX);
        for zone in ["a", "7", "eu-central-1a", "Rack_3.west", &longest] {
            assert!(is_zone(zone), "{zone}");
        }
        let longer = "z".repeat(ZONE_MAX + 1);
        for wrong in ["", " a", "a b", "-a", "a-", "a.", "_", "zürich", "a/b", &longer] {
            assert!(!is_zone(wrong), "{wrong}");
        }
    }
}
