//! How a static program looks names of hosts up.

/// Lets a static program look names up in the hosts file and by DNS alone; others ask as the system is set up to.
///
/// glibc loads what else `/etc/nsswitch.conf` names as a shared library, with the C library that this was built for
/// beside the one that is linked in: where the two differ, the program crashes.
pub fn prefer_own() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        unsafe extern "C" {
            fn __nss_configure_lookup(
                database: *const libc::c_char,
                services: *const libc::c_char,
            ) -> libc::c_int;
        }
        // SAFETY: both strings end in zero, and glibc copies what it keeps. It fails where memory is short alone.
        unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    }
}
