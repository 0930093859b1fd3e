//! A UDP socket on which the kernel stamps what leaves and what arrives (`SO_TIMESTAMPING`).
//!
//! No capability is needed for that. A stamp in software is taken when the driver of a device gets a packet, or hands
//! one up: departures are early and arrivals late, never the other way round (the kernel's documentation,
//! `networking/timestamping.rst`, sections 1.3.1 and 2.1.1.5).

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use conclave_protocols::LocalTime;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt,
};

use super::{Source, Stamp};
use crate::os_clock::{OsClock, Stamps};

/// The socket, and the clock that stamps are brought onto.
#[derive(Debug)]
pub(super) struct Socket {
    udp: UdpSocket,
    clock: OsClock,
    stamps: Stamps,
    /// Whether the kernel stamps.
    is_stamped: bool,
    /// Whether addresses are those of IPv6, and those of IPv4 mapped into it.
    is_v6: bool,
    /// What the kernel counts the next packet by.
    next: u32,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    /// What the kernel counts it by.
    pub(super) count: u32,
    /// When the call began that sent it.
    pub(super) began: LocalTime,
    /// When that returned.
    pub(super) returned: LocalTime,
}

/// When the kernel had a packet in hand, by the wall clock in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelStamp(u64);

/// Room for the control messages of one packet: a stamp is three times, an error an error and an address.
const CONTROL: usize = 256;

/// Where the kernel writes control messages. They are read in place, each as a header with what follows it, so the bytes
/// are aligned as a header is.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

const _: () = assert!(align_of::<Control>() >= align_of::<libc::cmsghdr>());

impl Socket {
    /// Opens the port beside the one of the links: both families at `[::]`, as there.
    pub(super) fn open(address: SocketAddr, clock: OsClock) -> io::Result<Self> {
        let udp = UdpSocket::bind(address)?;
        udp.set_nonblocking(true)?;
        let stamps = Stamps::of(clock);
        let is_v6 = address.is_ipv6();
        let mut socket = Self { udp, clock, stamps, is_stamped: false, is_v6, next: 0 };
        socket.is_stamped = socket.have_stamped().is_ok();
        Ok(socket)
    }

    /// Has the kernel count from 0 on, if it stamps. What it has not reported of departures by then is of no packet any more.
    pub(super) fn count_anew(&mut self) {
        if self.is_stamped {
            self.is_stamped = self.have_stamped().is_ok();
        }
    }

    /// Has the kernel stamp, and count from 0 on: it counts from 0 when it is asked to and did not before.
    fn have_stamped(&mut self) -> io::Result<()> {
        self.next = 0;
        setsockopt(&self.udp, Timestamping, &TimestampingFlag::empty())?;
        setsockopt(&self.udp, Timestamping, &STAMPS)?;
        Ok(())
    }

    /// Sends a packet. A failure leaves it open whether the kernel counted it: then it is to [count
    /// anew](Socket::count_anew).
    pub(super) fn send(&mut self, bytes: &[u8], to: SocketAddr) -> io::Result<Sending> {
        // A later pair has an earlier one to be compared with.
        self.stamps.convert();
        let to = self.own_family(to);
        let began = self.clock.raw();
        let sent = self.udp.send_to(bytes, to);
        let returned = self.clock.raw();
        sent?;
        let count = self.next;
        self.next = self.next.wrapping_add(1);
        Ok(Sending { count, began, returned })
    }

    /// Whether a packet can be sent there from this socket.
    pub(super) fn reaches(&self, to: SocketAddr) -> bool {
        self.is_v6 || to.is_ipv4()
    }

    fn own_family(&self, to: SocketAddr) -> SocketAddr {
        match to.ip() {
            IpAddr::V4(ip) if self.is_v6 => (ip.to_ipv6_mapped(), to.port()).into(),
            IpAddr::V4(_) | IpAddr::V6(_) => to,
        }
    }

    /// When packets departed, by their count, as far as the kernel has reported them by now.
    pub(super) fn departed(&mut self) -> Vec<(u32, LocalTime)> {
        let mut departures = Vec::new();
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let descriptor = self.udp.as_raw_fd();
        loop {
            let mut control = Control([0; CONTROL]);
            let mut nothing = [0; 1];
            let mut parts = [IoSliceMut::new(&mut nothing)];
            let report =
                recvmsg::<SockaddrStorage>(descriptor, &mut parts, Some(&mut control.0), flags);
            let Ok(report) = report else { return departures };
            let conversion = self.stamps.convert();
            let (mut count, mut stamp) = (None, None);
            for message in report.cmsgs().into_iter().flatten() {
                stamp = stamp.or_else(|| stamped(&message));
                count = count.or_else(|| counted(&message));
            }
            let departed = || conversion?.departed(stamp?);
            departures.extend(count.zip(departed()));
        }
    }

    /// The next packet that has arrived: its length, and what the kernel says of its arrival. Nothing if there is none.
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<Option<(usize, Option<KernelStamp>)>> {
        let mut control = Control([0; CONTROL]);
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let descriptor = self.udp.as_raw_fd();
        let packet =
            recvmsg::<SockaddrStorage>(descriptor, &mut parts, Some(&mut control.0), flags);
        let packet = match packet {
            Ok(packet) => packet,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut messages = packet.cmsgs().into_iter().flatten();
        let stamp = messages.find_map(|message| stamped(&message));
        Ok(Some((packet.bytes, stamp.map(KernelStamp))))
    }

    /// When a packet arrived that was fetched a moment ago.
    pub(super) fn arrived(&mut self, stamp: Option<KernelStamp>) -> Stamp {
        let now = Stamp { raw: self.clock.raw(), source: Source::User };
        let conversion = self.stamps.convert();
        let by_kernel = stamp.and_then(|KernelStamp(stamp)| conversion?.arrived(stamp));
        by_kernel.map_or(now, |raw| {
            // A conversion errs to the late side; the packet had arrived when it was fetched.
            Stamp { raw: raw.min(now.raw), source: Source::Kernel }
        })
    }

    /// Takes off an error that would wake the thread again and again.
    pub(super) fn clear(&self) {
        // It is not about a packet that anybody waits for.
        let _ = self.udp.take_error();
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

/// What the kernel counts the packet by that a report is about.
fn counted(message: &ControlMessageOwned) -> Option<u32> {
    let (ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)) =
        message
    else {
        return None;
    };
    (error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING).then_some(error.ee_data)
}

/// When a packet passed, by the wall clock in nanoseconds. Nothing if the message is no stamp, or an empty one.
fn stamped(message: &ControlMessageOwned) -> Option<u64> {
    let ControlMessageOwned::ScmTimestampsns(stamps) = message else { return None };
    let time = stamps.system;
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec()).ok()?, u64::try_from(time.tv_nsec()).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).filter(|nanos| *nanos > 0)
}

/// What is asked of the kernel: stamps in software both ways, with the number of the packet instead of the packet.
const STAMPS: TimestampingFlag = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
    .union(TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE)
    .union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE)
    .union(TimestampingFlag::SOF_TIMESTAMPING_OPT_ID)
    .union(TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY);
