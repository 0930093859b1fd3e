//! Waiting for a condition, with a limit and an error that says what was last seen.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What one look at the world found.
pub type Look<T> = Result<T>;

/// Looks again and again until `look` succeeds, and returns what it found.
///
/// A look that fails is not yet an error: it says why the condition does not hold, and the last
/// such reason becomes the error once the limit is over.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Look<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let reason = match look() {
            Ok(found) => return Ok(found),
            Err(reason) => reason,
        };
        if Instant::now() >= deadline {
            bail!("waited {limit:?} in vain for {what}: {reason:#}");
        }
        std::thread::sleep(PAUSE);
    }
}

/// Short beside anything that a cluster does, long beside the cost of a look.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reason_is_in_the_error() {
        let mut looks = 0;
        let error = until::<()>("rain", Duration::from_millis(150), || {
            looks += 1;
            bail!("look {looks}: dry")
        });
        let text = error.unwrap_err().to_string();
        assert!(looks >= 2 && text.contains("rain") && text.contains(&format!("look {looks}")));
    }

    #[test]
    fn what_was_found_is_returned() {
        assert_eq!(until("two", Duration::ZERO, || Ok(2)).unwrap(), 2);
    }
}
