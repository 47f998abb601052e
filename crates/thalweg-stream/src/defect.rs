//! Reports of defects in Thalweg itself: which stage failed, and a file to reproduce it with.
//!
//! In: a stage of a segment's processing, as a closure. Out: its result, or [`Error::Internal`] with the path of a file
//! that holds the segment as text ([`thalweg_fusion::text`]). `thalweg-fuzz --segment FILE` plans that segment again.
//!
//! Always true: one segment has one file, however often it fails. If the file cannot be written, the error holds the
//! rest.

use crate::DeviceRef;
use crate::calibration::planning_costs;
use crate::mode::{effort, mode};
use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use thalweg_fusion::{Segment, text};
use thalweg_runtime::Error;
use thalweg_runtime::disk::Key;

/// Runs a stage of a segment's processing. A panic in it becomes an error that names the stage, e.g. "the planner".
pub(crate) fn caught<T>(
    part: &str,
    device: DeviceRef,
    segment: &Segment<'_>,
    f: impl FnOnce() -> T,
) -> Result<T, Error> {
    // Locks held during a panic recover from poisoning where they are taken.
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let why = said(&*panic);
        error(format!("{part} panicked: {why}"), Some((device, segment)))
    })
}

/// Error for a defect, with a report file if the segment is known.
pub(crate) fn error(message: String, segment: Option<(DeviceRef, &Segment<'_>)>) -> Error {
    // A panic while the report is written must not fail the program a second time.
    let report = segment.and_then(|(device, segment)| {
        catch_unwind(AssertUnwindSafe(|| write(&message, device, segment))).ok().flatten()
    });
    let report = report.map(|path| path.display().to_string());
    tracing::error!(message, report, "a defect of Thalweg");
    Error::Internal { message, report }
}

/// Text of a panic, from its payload.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
}

/// Writes the segment to a file in the temporary directory and returns its path.
fn write(message: &str, device: DeviceRef, segment: &Segment<'_>) -> Option<PathBuf> {
    let on = device.device();
    let mut report = format!("# Thalweg {}, {}: {}\n", env!("CARGO_PKG_VERSION"), on.name(), on.describe());
    message.lines().for_each(|line| report += &format!("# {line}\n"));
    report += &text::write(segment, &planning_costs(device, mode()), effort());
    let name = Key::of(&[report.as_bytes()]).to_string();
    let path = std::env::temp_dir().join(format!("thalweg-{}.segment", &name[..16]));
    let mut options = std::fs::OpenOptions::new();
    // Created exclusively: never writes through another user's file or link.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(&path) {
        Ok(mut file) => file.write_all(report.as_bytes()).ok().map(|()| path),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Some(path),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_cpu::{CpuDevice, CpuOptions};
    use thalweg_fusion::{BitSet, Mode, OwnedSegment};
    use thalweg_ir::{DType, ElementOp, InputKind, Op, RelArg, RelOp, Shape, View};

    /// Segment of one `exp` of a matrix with that many rows.
    fn segment(rows: usize) -> OwnedSegment {
        let shape = Shape::new(&[rows, 3]);
        let input = RelArg::input(0, InputKind { dtype: DType::F32, rank: 2, contiguous: true });
        let args = RelOp::pack(&[input]);
        let mut live = BitSet::new(1);
        live.insert(0);
        OwnedSegment {
            ops: vec![RelOp { op: Op::Element(ElementOp::Exp), dtype: DType::F32, rank: 2, attr: 0, args }],
            live,
            mode: Mode::fused(thalweg_kernel::Contracts::Rows),
            shapes: vec![shape],
            ints: vec![],
            scalars: vec![],
            inputs: vec![(DType::F32, View::contiguous(shape))],
        }
    }

    fn device() -> DeviceRef {
        DeviceRef::register(CpuDevice::with(CpuOptions { threads: 1, ..CpuOptions::default() }) as Arc<_>)
    }

    #[test]
    fn a_panic_becomes_an_error_with_the_segment_in_a_file() {
        let (device, segment) = (device(), segment(61));
        let panics = || -> () { panic!("row {} is no row", 7) };
        let error = caught("the planner", device, &segment.as_segment(), panics).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("a defect of Thalweg, not of the calling program: the planner panicked: row 7 is no row")
        );
        let Error::Internal { report: Some(path), .. } = error else { panic!("no report: {text}") };
        assert!(text.contains(&path), "{text}");
        let report = std::fs::read_to_string(&path).unwrap();
        assert!(report.contains("# the planner panicked: row 7 is no row"), "{report}");
        let (again, ..) = text::read(&report).unwrap();
        assert_eq!((again.ops, again.shapes), (segment.ops.clone(), segment.shapes.clone()));
        // A second report of the segment goes to the same file.
        let second = caught("the planner", device, &segment.as_segment(), panics).unwrap_err();
        assert_eq!(second.to_string(), text);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_goes_well_goes_through() {
        let (device, segment) = (device(), segment(62));
        assert_eq!(caught("the planner", device, &segment.as_segment(), || 5).unwrap(), 5);
    }
}
