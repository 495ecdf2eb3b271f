//! Compares every number and layout of the driver's interface with the installed linux/ublk_cmd.h.

use std::mem::offset_of;

use super::*;
use crate::disk::header::{Header, Layout, machine};

/// What the installed header may lack, for it may be of Linux 6.1; where it has these names, they are these lines of
/// Linux 6.5, include/uapi/linux/ublk_cmd.h.
const LINUX_6_5: &str = "
#define UBLK_U_CMD_ADD_DEV		_IOWR('u', UBLK_CMD_ADD_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_DEL_DEV		_IOWR('u', UBLK_CMD_DEL_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_START_DEV		_IOWR('u', UBLK_CMD_START_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_STOP_DEV		_IOWR('u', UBLK_CMD_STOP_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_SET_PARAMS		_IOWR('u', UBLK_CMD_SET_PARAMS, struct ublksrv_ctrl_cmd)
#define	UBLK_U_IO_FETCH_REQ		_IOWR('u', UBLK_IO_FETCH_REQ, struct ublksrv_io_cmd)
#define	UBLK_U_IO_COMMIT_AND_FETCH_REQ	_IOWR('u', UBLK_IO_COMMIT_AND_FETCH_REQ, struct ublksrv_io_cmd)
#define UBLK_F_USER_COPY	(1UL << 7)
#define UBLKSRV_IO_BUF_OFFSET	0x80000000
#define UBLK_IO_BUF_BITS	25
#define UBLK_TAG_OFF		UBLK_IO_BUF_BITS
#define UBLK_TAG_BITS		16
#define UBLK_QID_OFF		(UBLK_TAG_OFF + UBLK_TAG_BITS)
";

fn ublk() -> Header {
    machine("linux/ublk_cmd.h")
}

#[test]
fn constants_are_the_headers() {
    let header = ublk();
    for (name, ours) in [
        ("UBLK_CMD_ADD_DEV", Control::Add as u32),
        ("UBLK_CMD_DEL_DEV", Control::Delete as u32),
        ("UBLK_CMD_START_DEV", Control::Start as u32),
        ("UBLK_CMD_STOP_DEV", Control::Stop as u32),
        ("UBLK_CMD_SET_PARAMS", Control::SetParameters as u32),
        ("UBLK_IO_FETCH_REQ", Fetch::First as u32),
        ("UBLK_IO_COMMIT_AND_FETCH_REQ", Fetch::Next as u32),
        ("UBLK_IO_OP_READ", op::READ),
        ("UBLK_IO_OP_WRITE", op::WRITE),
        ("UBLK_IO_OP_FLUSH", op::FLUSH),
        ("UBLK_IO_OP_DISCARD", op::DISCARD),
        ("UBLK_IO_OP_WRITE_ZEROES", op::WRITE_ZEROES),
        ("UBLK_IO_F_FUA", op::FUA),
        ("UBLK_ATTR_ROTATIONAL", attribute::ROTATIONAL),
        ("UBLK_ATTR_VOLATILE_CACHE", attribute::VOLATILE_CACHE),
        ("UBLK_ATTR_FUA", attribute::FUA),
        ("UBLK_PARAM_TYPE_BASIC", part::BASIC),
        ("UBLK_PARAM_TYPE_DISCARD", part::DISCARD),
        // Requests are mapped from the start of the server's node.
        ("UBLKSRV_CMD_BUF_OFFSET", 0),
    ] {
        assert_eq!(header.constant(name), i64::from(ours), "{name}");
    }
    // "#define UBLK_IO_RES_ABORT (-ENODEV)"; errno numbers are the C library's own.
    assert_eq!(ABORTED, -nix::libc::ENODEV);
    assert!(header.constant("UBLK_MAX_QUEUE_DEPTH") >= 128, "the deepest queue of a model");
}

/// The operation is what the header's own `ublksrv_get_op` takes out of `op_flags`.
#[test]
fn operations_and_flags_share_no_bit() {
    let text = std::fs::read_to_string("/usr/include/linux/ublk_cmd.h").expect("the header");
    assert!(text.contains(&format!("return iod->op_flags & {:#x};", op::MASK)));
    assert_eq!(op::FUA & op::MASK, 0);
}

#[test]
fn ioctl_numbers_are_the_headers() {
    let header = ublk();
    // include/uapi/asm-generic/ioctl.h: direction in the top two bits (read and write), then size, type and number.
    let generic = machine("asm-generic/ioctl.h");
    let bits = |name: &str| generic.constant(name) as u32;
    let (number, kind, size) = (bits("_IOC_NRBITS"), bits("_IOC_TYPEBITS"), bits("_IOC_SIZEBITS"));
    let direction = bits("_IOC_READ") | bits("_IOC_WRITE");
    for (name, ours) in [
        ("UBLK_U_CMD_ADD_DEV", Control::Add.number()),
        ("UBLK_U_CMD_DEL_DEV", Control::Delete.number()),
        ("UBLK_U_CMD_START_DEV", Control::Start.number()),
        ("UBLK_U_CMD_STOP_DEV", Control::Stop.number()),
        ("UBLK_U_CMD_SET_PARAMS", Control::SetParameters.number()),
        ("UBLK_U_IO_FETCH_REQ", Fetch::First.number()),
        ("UBLK_U_IO_COMMIT_AND_FETCH_REQ", Fetch::Next.number()),
    ] {
        let line = LINUX_6_5.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).expect(name);
        let (_, form) = line.split_once("_IOWR('u', ").expect("both ways, of type u");
        let (plain, structure) = form.trim_end_matches(')').split_once(", struct ").expect("a structure");
        let plain = header.constant(plain) as u32;
        let expected = plain
            | u32::from(b'u') << number
            | (header.layout(structure).size as u32) << (number + kind)
            | direction << (number + kind + size);
        assert_eq!(ours, expected, "{name}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if let Some(installed) = header.definition(name) {
            assert_eq!(words(installed), words(line)[2..], "{name}");
        }
    }
}

/// Newer headers write the same numbers with other suffixes or in other places.
#[test]
fn places_of_bytes_are_the_headers() {
    let lines = Header::new(LINUX_6_5);
    assert_eq!(lines.constant("UBLK_F_USER_COPY") as u64, flag::USER_COPY);
    assert_eq!(lines.constant("UBLK_IO_BUF_BITS"), i64::from(BUFFER_BITS));
    assert_eq!(lines.constant("UBLKSRV_IO_BUF_OFFSET") as u64, BUFFERS);
    assert_eq!(lines.definition("UBLK_TAG_OFF"), Some("UBLK_IO_BUF_BITS"));
    // The number of the queue, which is 0, would lie above that of the tag.
    assert_eq!(place(3), BUFFERS + (3 << lines.constant("UBLK_IO_BUF_BITS")));
    let installed = ublk();
    for name in ["UBLK_F_USER_COPY", "UBLKSRV_IO_BUF_OFFSET", "UBLK_IO_BUF_BITS"] {
        if installed.definition(name).is_some() {
            assert_eq!(installed.constant(name), lines.constant(name), "{name}");
        }
    }
}

fn agrees(layout: &Layout, size: usize, members: &[(&str, usize, usize)]) {
    assert_eq!(layout.size, size, "{layout:?}");
    for (name, offset, bytes) in members {
        assert_eq!(layout.members.get(*name), Some(&(*offset, *bytes)), "{name}");
    }
}

#[test]
fn structures_are_laid_out_as_the_headers() {
    let header = ublk();
    agrees(
        &header.layout("ublksrv_ctrl_cmd"),
        size_of::<ControlCommand>(),
        &[
            ("dev_id", offset_of!(ControlCommand, device), 4),
            ("queue_id", offset_of!(ControlCommand, queue), 2),
            ("len", offset_of!(ControlCommand, length), 2),
            ("addr", offset_of!(ControlCommand, address), 8),
        ],
    );
    assert_eq!(header.layout("ublksrv_ctrl_cmd").members["addr"].0 + 8, offset_of!(ControlCommand, data));
    let info = header.layout("ublksrv_ctrl_dev_info");
    agrees(
        &info,
        size_of::<DeviceInfo>(),
        &[
            ("nr_hw_queues", offset_of!(DeviceInfo, queues), 2),
            ("queue_depth", offset_of!(DeviceInfo, depth), 2),
            ("state", offset_of!(DeviceInfo, state), 2),
            ("max_io_buf_bytes", offset_of!(DeviceInfo, largest_request_bytes), 4),
            ("dev_id", offset_of!(DeviceInfo, device), 4),
            ("ublksrv_pid", offset_of!(DeviceInfo, server_pid), 4),
            ("flags", offset_of!(DeviceInfo, flags), 8),
            ("ublksrv_flags", offset_of!(DeviceInfo, server_flags), 8),
        ],
    );
    agrees(
        &header.layout("ublksrv_io_cmd"),
        size_of::<FetchCommand>(),
        &[
            ("q_id", offset_of!(FetchCommand, queue), 2),
            ("tag", offset_of!(FetchCommand, tag), 2),
            ("result", offset_of!(FetchCommand, result), 4),
            ("addr", offset_of!(FetchCommand, address), 8),
        ],
    );
    agrees(
        &header.layout("ublksrv_io_desc"),
        size_of::<Described>(),
        &[
            ("op_flags", offset_of!(Described, op_flags), 4),
            ("nr_sectors", offset_of!(Described, sectors), 4),
            ("start_sector", offset_of!(Described, start_sector), 8),
            ("addr", offset_of!(Described, address), 8),
        ],
    );
}

#[test]
fn parameters_are_laid_out_as_the_headers() {
    let header = ublk();
    let params = header.layout("ublk_params");
    let (basic_at, discard_at) = (params.members["basic"].0, params.members["discard"].0);
    assert_eq!(params.members["len"], (offset_of!(Parameters, length), 4));
    assert_eq!(params.members["types"], (offset_of!(Parameters, parts), 4));
    // A kernel with more parts takes the shorter length that this program states.
    assert!(params.size >= size_of::<Parameters>());
    assert!(discard_at + params.members["discard"].1 <= size_of::<Parameters>());
    let basic = header.layout("ublk_param_basic");
    for (name, offset, bytes) in [
        ("attrs", offset_of!(Parameters, attributes), 4),
        ("logical_bs_shift", offset_of!(Parameters, logical_block_shift), 1),
        ("physical_bs_shift", offset_of!(Parameters, physical_block_shift), 1),
        ("io_opt_shift", offset_of!(Parameters, optimal_io_shift), 1),
        ("io_min_shift", offset_of!(Parameters, least_io_shift), 1),
        ("max_sectors", offset_of!(Parameters, largest_sectors), 4),
        ("chunk_sectors", offset_of!(Parameters, chunk_sectors), 4),
        ("dev_sectors", offset_of!(Parameters, sectors), 8),
        ("virt_boundary_mask", offset_of!(Parameters, boundary_mask), 8),
    ] {
        let (at, size) = basic.members[name];
        assert_eq!((basic_at + at, size), (offset, bytes), "{name}");
    }
    let discard = header.layout("ublk_param_discard");
    for (name, offset, bytes) in [
        ("discard_alignment", offset_of!(Parameters, discard_alignment), 4),
        ("discard_granularity", offset_of!(Parameters, discard_granularity), 4),
        ("max_discard_sectors", offset_of!(Parameters, largest_discard_sectors), 4),
        ("max_write_zeroes_sectors", offset_of!(Parameters, largest_zeroes_sectors), 4),
        ("max_discard_segments", offset_of!(Parameters, discard_segments), 2),
    ] {
        let (at, size) = discard.members[name];
        assert_eq!((discard_at + at, size), (offset, bytes), "{name}");
    }
}

/// The bytes put into the ring by hand are those of the structure.
#[test]
fn a_fetch_command_is_written_as_it_is_laid_out() {
    let bytes = FetchCommand::bytes(0x0102, 0x0304_0506);
    let field = |offset: usize, size: usize| &bytes[offset..offset + size];
    assert_eq!(field(offset_of!(FetchCommand, queue), 2), [0, 0]);
    assert_eq!(field(offset_of!(FetchCommand, tag), 2), 0x0102_u16.to_ne_bytes());
    assert_eq!(field(offset_of!(FetchCommand, result), 4), 0x0304_0506_i32.to_ne_bytes());
    assert_eq!(field(offset_of!(FetchCommand, address), 8), [0; 8], "the driver refuses one where this program copies");
}
