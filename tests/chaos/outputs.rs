//! Outputs, which never take the place of what is somebody's.
