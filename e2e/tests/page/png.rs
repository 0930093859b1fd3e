//! Makes a picture small: a browser draws thousands of shades, and 256 colours do.
//!
//! Source: W3C, *Portable Network Graphics (PNG) Specification*, second edition, 2003.

use std::collections::HashMap;
use std::io::{Read, Write};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

type Colour = [u8; 3];

/// What a PNG file begins with.
pub(crate) const BEGIN: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The same picture with the 256 most frequent of its colours, each other one as the nearest of these.
pub(crate) fn with_few_colours(file: &[u8]) -> Result<Vec<u8>> {
    let mut header = Vec::new();
    let mut packed = Vec::new();
    let mut rest = file.strip_prefix(BEGIN).context("a PNG file")?;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length))?;
        let (kind, body) = after.split_at_checked(4).context("a chunk")?;
        match kind {
            b"IHDR" => header = body.get(..length).context("a header")?.to_vec(),
            b"IDAT" => packed.extend_from_slice(body.get(..length).context("data")?),
            _ => {}
        }
        rest = body.get(length + CHECKSUM..).context("a whole chunk")?;
    }
    ensure!(header[8..] == [8, 2, 0, 0, 0], "8 bits each of red, green and blue: {header:?}");
    let width = usize::try_from(u32::from_be_bytes(header[..4].try_into()?))?;
    let mut lines = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut lines)?;
    let (colours, lines) = indexed(&unfiltered(&lines, 3 * width), width);

    header[9] = 3;
    let mut squeezed = ZlibEncoder::new(Vec::new(), Compression::best());
    squeezed.write_all(&lines)?;
    let mut small = BEGIN.to_vec();
    for (kind, body) in [
        (b"IHDR", header),
        (b"PLTE", colours.concat()),
        (b"IDAT", squeezed.finish()?),
        (b"IEND", vec![]),
    ] {
        let mut sum = flate2::Crc::new();
        sum.update(kind);
        sum.update(&body);
        small.extend(u32::try_from(body.len())?.to_be_bytes());
        small.extend(kind);
        small.extend(body);
        small.extend(sum.sum().to_be_bytes());
    }
    Ok(small)
}

/// The bytes of all lines: a filter has them as differences from those before and above (section 9).
fn unfiltered(lines: &[u8], length: usize) -> Vec<Colour> {
    let mut above = vec![0; length];
    let mut colours = Vec::new();
    for line in lines.chunks_exact(length + 1) {
        let (filter, mut bytes) = (line[0], line[1..].to_vec());
        for at in 0..length {
            let (left, corner) = if at < 3 { (0, 0) } else { (bytes[at - 3], above[at - 3]) };
            let up = above[at];
            let guess = match filter {
                1 => left,
                2 => up,
                3 => left.midpoint(up),
                4 => paeth(left, up, corner),
                _ => 0,
            };
            bytes[at] = bytes[at].wrapping_add(guess);
        }
        colours.extend(bytes.as_chunks().0);
        above = bytes;
    }
    colours
}

/// Which of the three is nearest to what a plane through them has here (section 9.4).
fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let plane = i32::from(left) + i32::from(up) - i32::from(corner);
    let far = |one: &u8| (plane - i32::from(*one)).abs();
    // Of those that are as near as each other the first counts.
    [left, up, corner].into_iter().min_by_key(far).unwrap_or(corner)
}

/// The colours that are kept, and the lines as numbers of these, without a filter.
fn indexed(all: &[Colour], width: usize) -> (Vec<Colour>, Vec<u8>) {
    let mut times: HashMap<Colour, usize> = HashMap::new();
    for colour in all {
        *times.entry(*colour).or_default() += 1;
    }
    let mut kept: Vec<Colour> = times.keys().copied().collect();
    kept.sort_unstable_by_key(|colour| (usize::MAX - times[colour], *colour));
    kept.truncate(256);
    let number = |colour: &Colour| (0..=255).zip(&kept).min_by_key(|(_, one)| far(*colour, **one));
    let numbers: HashMap<Colour, u8> = times
        .keys()
        .map(|colour| (*colour, number(colour).map_or(0, |(number, _)| number)))
        .collect();
    let lines = all.chunks(width).flat_map(|line| {
        std::iter::once(NO_FILTER).chain(line.iter().map(|colour| numbers[colour]))
    });
    let lines = lines.collect();
    (kept, lines)
}

fn far(one: Colour, other: Colour) -> u32 {
    one.iter().zip(other).map(|(one, other)| u32::from(one.abs_diff(other)).pow(2)).sum()
}

const NO_FILTER: u8 = 0;

/// The bytes at the end of a chunk.
const CHECKSUM: usize = 4;
