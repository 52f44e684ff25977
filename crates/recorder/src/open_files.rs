//! How many files this process may have open: each library and site needs several, for links, counters and inspected
//! files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Allows as many as the system lets this process have. Call it when the command to launch is a separate process
/// already: its limit stays what its user has set.
pub fn allow_most() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
