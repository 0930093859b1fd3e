//! What the head of an algorithm's file states: the page repeats it, so that it stands in one place.

/// The head of a file.
pub(crate) struct Header {
    /// The first sentence.
    pub(crate) title: String,
    /// Where the algorithm is from.
    pub(crate) source: String,
    /// The rows of the table of promises.
    pub(crate) promises: Vec<String>,
}

impl Header {
    /// Reads the text of a file.
    pub(crate) fn read(text: &str) -> Self {
        let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
        let title: Vec<&str> = lines.clone().take_while(|line| !line.is_empty()).collect();
        let source = lines.clone().skip_while(|line| !line.starts_with("Source:"));
        let source: Vec<&str> = source.take_while(|line| !line.is_empty()).collect();
        let rows = lines.filter(|line| line.starts_with('|'));
        let promises: Vec<String> = rows.map(without_links).collect();
        assert!(!title.is_empty() && !source.is_empty() && promises.len() > 4, "{title:?}");
        Self { title: title.join(" "), source: without_links(&source.join(" ")), promises }
    }
}

/// Links to Rust items, which lead nowhere from the page, become plain names.
fn without_links(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use conclave_protocols::policy::LockAlgorithm;

    use super::*;
    use crate::clocks::{BERKELEY, CRISTIAN, NTP};
    use crate::page_elections::{BULLY, CHANG_ROBERTS, RING, SPANNING_TREE};
    use crate::page_superpeers::SUPERPEERS;
    use crate::textbooks;

    const OTHERS: [(&str, &str); 8] = [
        ("Bully", BULLY),
        ("Ring", RING),
        ("ChangRoberts", CHANG_ROBERTS),
        ("SpanningTree", SPANNING_TREE),
        ("Superpeers of many members", SUPERPEERS),
        ("Berkeley", BERKELEY),
        ("Cristian", CRISTIAN),
        ("NTP", NTP),
    ];

    #[test]
    fn every_head_says_what_is_tolerated_and_what_links_must_be_like() {
        let locks = LockAlgorithm::ALL.map(textbooks::of).map(|book| (book.name, book.text));
        for (name, text) in locks.into_iter().chain(OTHERS) {
            let promises = Header::read(text).promises;
            for property in ["| tolerates |", "| links |"] {
                assert!(promises.iter().any(|row| row.starts_with(property)), "{name}: {property}");
            }
        }
    }

    #[test]
    fn a_head_is_read_up_to_its_blank_lines_and_links_to_items_become_names() {
        let text = "//! A lock\n//! of doors.\n//!\n//! Source: Miller,\n//! *Doors*.\n//!\n//! | a | b |\n\
                    //! | --- | --- |\n//! | c | [`D::e`] |\n//! | f | g |\n//! | h | i |\n//!\nuse x;\n";
        let Header { title, source, promises } = Header::read(text);
        assert_eq!(
            (title.as_str(), source.as_str()),
            ("A lock of doors.", "Source: Miller, *Doors*.")
        );
        assert_eq!(promises[2..], ["| c | `D::e` |", "| f | g |", "| h | i |"]);
    }
}
