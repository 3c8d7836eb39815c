//! A kernel that cannot steer datagrams to one of several sockets, as emulations of Linux cannot:
//! played by a filter of system calls, on one thread.

use std::io::{self, ErrorKind};
use std::mem::offset_of;

use fulmar_sys::udp::{UdpOptions, UdpSocket};

/// Answers `SO_ATTACH_REUSEPORT_CBPF` with `ENOPROTOOPT` from now on, on this thread and those that
/// it starts.
fn refuse_steering() -> io::Result<()> {
    let step = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    // The lower half of each argument, which is 64 bits wide.
    let low = if cfg!(target_endian = "big") { 4 } else { 0 };
    let argument = |n: usize| (offset_of!(libc::seccomp_data, args) + 8 * n + low) as u32;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut program = [
        step(load, 0, 0, offset_of!(libc::seccomp_data, nr) as u32),
        step(is_equal, 0, 5, libc::SYS_setsockopt as u32),
        step(load, 0, 0, argument(1)),
        step(is_equal, 0, 3, libc::SOL_SOCKET as u32),
        step(load, 0, 0, argument(2)),
        step(is_equal, 0, 1, libc::SO_ATTACH_REUSEPORT_CBPF as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOPROTOOPT as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the first call takes numbers alone; the second reads the program, which lives during
    // it.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn where_the_kernel_cannot_steer_one_socket_serves_all() {
    let local = "127.0.0.1:0".parse().expect("an address");
    let (send_buffer, receive_buffer) = (65_536, 65_536);
    let options = UdpOptions {
        local,
        both_families: false,
        interface: None,
        send_buffer,
        receive_buffer,
        segmentation: true,
        shared: true,
    };
    let steered = UdpSocket::bind(&options).expect("a socket");
    assert!(steered.may_share(), "this kernel can");
    if let Err(error) = refuse_steering() {
        println!("SKIPPED: where_the_kernel_cannot_steer_one_socket_serves_all: seccomp: {error}");
        return;
    }
    let alone = UdpSocket::bind(&options).expect("a socket all the same");
    assert!(!alone.may_share());
    assert_eq!(alone.beside(&options).expect_err("alone").kind(), ErrorKind::Unsupported);
    // Nobody else may take datagrams away from it.
    let local = alone.local_address().expect("an address");
    let second = UdpSocket::bind(&UdpOptions { local, ..options });
    assert_eq!(second.expect_err("taken").kind(), ErrorKind::AddrInUse);
}
