//! The kernel's side of a block device that a program serves: `ublk_drv` (linux/ublk_cmd.h), spoken to through io_uring.
//!
//! The crate libublk does this too, but brings an asynchronous runtime and needs libclang to be built; what is used here
//! is a handful of commands. This program copies the bytes of requests itself (`UBLK_F_USER_COPY`), for it says when;
//! that and the ioctl numbers of the commands need Linux 6.5.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{IoUring, cqueue, opcode, squeue, types};

const CONTROL: &str = "/dev/ublk-control";

/// How the driver says that a command will not be answered by a request any more.
pub const ABORTED: i32 = -nix::libc::ENODEV;

/// Commands to the control device, by their numbers.
#[derive(Clone, Copy)]
enum Control {
    Add = 0x04,
    Delete = 0x05,
    Start = 0x06,
    Stop = 0x07,
    SetParameters = 0x08,
}

/// Commands of a queue.
#[derive(Clone, Copy)]
pub enum Fetch {
    /// Asks for the first request of a tag.
    First = 0x20,
    /// Answers a request and asks for the next one.
    Next = 0x21,
}

/// `_IOWR('u', number, size)`; every command used here goes both ways.
fn both_ways(number: u32, size: usize) -> u32 {
    (3 << 30) | ((size as u32) << 16) | (u32::from(b'u') << 8) | number
}

impl Control {
    fn number(self) -> u32 {
        both_ways(self as u32, size_of::<ControlCommand>())
    }
}

impl Fetch {
    fn number(self) -> u32 {
        both_ways(self as u32, size_of::<FetchCommand>())
    }
}

/// Bits of `ublksrv_ctrl_dev_info.flags`.
mod flag {
    pub const USER_COPY: u64 = 1 << 7;
}

/// Where in the server's node the bytes of a tag's request are, of the only queue. A read's are written there, a
/// write's are read.
pub fn place(tag: u16) -> u64 {
    BUFFERS + (u64::from(tag) << BUFFER_BITS)
}

/// `UBLKSRV_IO_BUF_OFFSET` and `UBLK_IO_BUF_BITS`.
const BUFFERS: u64 = 0x8000_0000;
const BUFFER_BITS: u32 = 25;

/// `struct ublksrv_ctrl_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlCommand {
    device: u32,
    queue: u16,
    length: u16,
    address: u64,
    data: [u64; 2],
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DeviceInfo {
    queues: u16,
    depth: u16,
    state: u16,
    pad0: u16,
    largest_request_bytes: u32,
    device: u32,
    server_pid: i32,
    pad1: u32,
    flags: u64,
    server_flags: u64,
    owner: [u32; 2],
    reserved: [u64; 2],
}

/// `struct ublk_params` with its first two parts.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Parameters {
    length: u32,
    parts: u32,
    attributes: u32,
    logical_block_shift: u8,
    physical_block_shift: u8,
    optimal_io_shift: u8,
    least_io_shift: u8,
    largest_sectors: u32,
    chunk_sectors: u32,
    sectors: u64,
    boundary_mask: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    largest_discard_sectors: u32,
    largest_zeroes_sectors: u32,
    discard_segments: u16,
    reserved: u16,
}

/// `struct ublksrv_io_cmd`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FetchCommand {
    queue: u16,
    tag: u16,
    result: i32,
    address: u64,
}

impl FetchCommand {
    /// The bytes that go into the ring.
    pub fn bytes(tag: u16, result: i32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_io_desc`: a request as the driver describes it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Described {
    /// The operation in the lowest 8 bits, flags above.
    pub op_flags: u32,
    /// Its length.
    pub sectors: u32,
    /// Its first sector.
    pub start_sector: u64,
    /// Not used where this program copies.
    pub address: u64,
}

/// Operations, in the lowest 8 bits of [`Described::op_flags`].
pub mod op {
    /// The bits of the operation itself.
    pub const MASK: u32 = 0xff;
    /// Read.
    pub const READ: u32 = 0;
    /// Write.
    pub const WRITE: u32 = 1;
    /// Flush.
    pub const FLUSH: u32 = 2;
    /// Discard.
    pub const DISCARD: u32 = 3;
    /// Write zeros.
    pub const WRITE_ZEROES: u32 = 5;
    /// The flag of force unit access: a bit of the whole of `op_flags`, not of what is left after a shift by 8.
    pub const FUA: u32 = 1 << 13;
}

/// Bits of `ublk_param_basic.attrs`.
mod attribute {
    pub const ROTATIONAL: u32 = 1 << 1;
    pub const VOLATILE_CACHE: u32 = 1 << 2;
    pub const FUA: u32 = 1 << 3;
}

/// Bits of `ublk_params.types`.
mod part {
    pub const BASIC: u32 = 1 << 0;
    pub const DISCARD: u32 = 1 << 1;
}

/// What the kernel is told about a device.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    /// Size.
    pub size_bytes: u64,
    /// Requests at a time.
    pub depth: u16,
    /// Largest request.
    pub largest_request_bytes: u32,
    /// 512 or 4096.
    pub logical_block_bytes: u32,
    /// 512 or 4096.
    pub physical_block_bytes: u32,
    /// It rotates.
    pub rotational: bool,
    /// Acknowledged writes may be lost: the kernel sends flushes.
    pub volatile_cache: bool,
    /// It takes discards and writes of zeros.
    pub discards: bool,
}

/// The control device.
pub struct Driver {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Driver {
    /// Opens the control device.
    ///
    /// # Errors
    /// A sentence, when the driver is not loaded or this user may not use it.
    pub fn open() -> Result<Self, String> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL).map_err(|error| {
            let cure = if error.kind() == io::ErrorKind::NotFound {
                "load the module first: modprobe ublk_drv"
            } else {
                "run this as root"
            };
            format!("{CONTROL} cannot be opened ({error}); {cure}")
        })?;
        let ring = IoUring::builder()
            .build(4)
            .map_err(|error| format!("the kernel gives no io_uring ({error}); set kernel.io_uring_disabled to 0"))?;
        Ok(Self { file, ring })
    }

    /// Makes the device with this number known to the kernel. It is not live yet.
    ///
    /// # Errors
    /// What the system says; unsupported where the kernel would copy by itself.
    pub fn add(&mut self, device: u32, attributes: &Attributes) -> io::Result<()> {
        let mut info = DeviceInfo {
            queues: 1,
            depth: attributes.depth,
            largest_request_bytes: attributes.largest_request_bytes,
            device,
            flags: flag::USER_COPY,
            ..DeviceInfo::default()
        };
        self.control(Control::Add, device, Some(bytes_of(&mut info)), 0)?;
        // The kernel gives back the flags that it knows.
        if info.flags & flag::USER_COPY == 0 {
            self.delete(device)?;
            return Err(io::ErrorKind::Unsupported.into());
        }
        let shift = |bytes: u32| bytes.trailing_zeros() as u8;
        let sectors = |bytes: u64| bytes / 512;
        // Least and optimal size equal to the physical block say that there is no stripe to align to.
        let physical = shift(attributes.physical_block_bytes);
        let mut parameters = Parameters {
            length: size_of::<Parameters>() as u32,
            parts: part::BASIC | if attributes.discards { part::DISCARD } else { 0 },
            attributes: if attributes.rotational { attribute::ROTATIONAL } else { 0 }
                | if attributes.volatile_cache { attribute::VOLATILE_CACHE | attribute::FUA } else { 0 },
            logical_block_shift: shift(attributes.logical_block_bytes),
            physical_block_shift: physical,
            optimal_io_shift: physical,
            least_io_shift: physical,
            largest_sectors: sectors(u64::from(attributes.largest_request_bytes)) as u32,
            sectors: sectors(attributes.size_bytes),
            ..Parameters::default()
        };
        if attributes.discards {
            parameters.discard_granularity = 4096;
            parameters.largest_discard_sectors = sectors(1 << 30) as u32;
            parameters.largest_zeroes_sectors = sectors(1 << 30) as u32;
            parameters.discard_segments = 1;
        }
        self.control(Control::SetParameters, device, Some(bytes_of(&mut parameters)), 0)
    }

    /// Makes the device live; its queue must be served by another thread of this program.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(&mut self, device: u32) -> io::Result<()> {
        self.control(Control::Start, device, None, u64::from(std::process::id()))
    }

    /// Takes the device away from its users, once what they wait for is answered.
    ///
    /// # Errors
    /// What the system says.
    pub fn stop(&mut self, device: u32) -> io::Result<()> {
        self.control(Control::Stop, device, None, 0)
    }

    /// Makes the kernel forget the device, once its server has closed it.
    ///
    /// # Errors
    /// What the system says.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        self.control(Control::Delete, device, None, 0)
    }

    fn control(&mut self, command: Control, device: u32, buffer: Option<(u64, u16)>, data: u64) -> io::Result<()> {
        let (address, length) = buffer.unwrap_or((0, 0));
        let said = ControlCommand { device, queue: u16::MAX, length, address, data: [data, 0] };
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&said.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&said.queue.to_ne_bytes());
        bytes[6..8].copy_from_slice(&said.length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&said.address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&said.data[0].to_ne_bytes());
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command.number()).cmd(bytes).build();
        // SAFETY: the entry points to a buffer of the caller that lives until this function returns, and it returns only
        // after the kernel has answered.
        #[allow(unsafe_code)]
        unsafe {
            self.ring.submission().push(&entry).map_err(io::Error::other)?;
        }
        let result = loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if let Some(answer) = self.ring.completion().next() {
                break answer.result();
            }
        };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

/// Address and length of a structure for the kernel.
fn bytes_of<T>(structure: &mut T) -> (u64, u16) {
    (std::ptr::from_mut(structure) as u64, size_of::<T>() as u16)
}

/// An entry of a queue's ring.
pub fn fetch_entry(device: RawFd, command: Fetch, tag: u16, result: i32) -> squeue::Entry {
    opcode::UringCmd16::new(types::Fd(device), command.number())
        .cmd(FetchCommand::bytes(tag, result))
        .build()
        .user_data(u64::from(tag))
}

#[cfg(test)]
mod header_tests;
