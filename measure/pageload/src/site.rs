//! A page that is the same on every machine: images, two of them large, styles and scripts. What a cache makes of it
//! can be compared with what another made of it last year.
//!
//! It is the page of the tables by which Firefox's cache was once judged: about 460 images, two of about 750 kB and
//! 600 kB. Images are noise, which no transport makes smaller, in PNGs that browsers decode.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use stats::Random;
use std::collections::BTreeMap;
use std::io::Write;

/// Pixels of the two large images: width, height. Three bytes each.
const LARGE: [(u32, u32); 2] = [(640, 390), (500, 400)];

/// Sides of small images, in pixels: from, and how many lengths there are.
const SMALL: (u32, usize) = (28, 53);

/// How many styles and scripts.
const STYLES: usize = 2;
const SCRIPTS: usize = 2;

/// What is to be on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteOptions {
    /// Images, the two large ones included; at least two.
    pub images: usize,
    /// The same seed makes the same bytes.
    pub seed: u64,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self { images: 460, seed: 1 }
    }
}

/// One answer of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its media type.
    pub kind: &'static str,
    /// Its body.
    pub body: Vec<u8>,
    /// Its validator, in quotation marks: another body has another one.
    pub etag: String,
}

impl Resource {
    fn new(kind: &'static str, body: Vec<u8>) -> Self {
        let etag = format!("\"{:08x}-{:x}\"", crc32fast::hash(&body), body.len());
        Self { kind, body, etag }
    }
}

/// The page and all that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    resources: BTreeMap<String, Resource>,
}

impl Site {
    /// Makes it.
    pub fn new(options: SiteOptions) -> Self {
        let mut random = Random::from_seed(options.seed);
        let images = options.images.max(LARGE.len());
        let mut resources = BTreeMap::new();
        let mut html = String::from("<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">");
        html.push_str("<title>A page of images</title>\n<link rel=\"icon\" href=\"data:,\">\n");
        for number in 0..STYLES {
            let name = format!("style-{number}.css");
            html.push_str(&format!("<link rel=\"stylesheet\" href=\"{name}\">\n"));
            resources.insert(name, Resource::new("text/css", style(number).into_bytes()));
        }
        for number in 0..SCRIPTS {
            let name = format!("script-{number}.js");
            html.push_str(&format!("<script src=\"{name}\" defer></script>\n"));
            resources.insert(name, Resource::new("text/javascript", script(number).into_bytes()));
        }
        html.push_str("</head>\n<body>\n<h1>A page of images</h1>\n");
        for number in 0..images {
            let (width, height) = LARGE.get(number).copied().unwrap_or_else(|| (side(&mut random), side(&mut random)));
            let name = format!("image-{number:04}.png");
            html.push_str(&format!("<img src=\"{name}\" width=\"{width}\" height=\"{height}\" alt=\"\">\n"));
            resources.insert(name, Resource::new("image/png", png(width, height, &mut random)));
        }
        html.push_str("</body>\n</html>\n");
        resources.insert("index.html".to_owned(), Resource::new("text/html; charset=utf-8", html.into_bytes()));
        Self { resources }
    }

    /// The answer of this name, which has no slash: `index.html` is the page.
    pub fn get(&self, name: &str) -> Option<&Resource> {
        self.resources.get(name)
    }

    /// All answers with their names, which is how many requests a first visit needs.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = (&str, &Resource)> {
        self.resources.iter().map(|(name, resource)| (name.as_str(), resource))
    }

    /// Bytes of all bodies.
    pub fn bytes(&self) -> u64 {
        self.resources.values().map(|resource| resource.body.len() as u64).sum()
    }
}

fn side(random: &mut Random) -> u32 {
    SMALL.0 + random.below(SMALL.1) as u32
}

fn style(number: usize) -> String {
    let mut text = String::from("body { margin: 8px; font: 16px sans-serif }\nimg { margin: 1px }\n");
    (0..200).for_each(|rule| text.push_str(&format!(".rule-{number}-{rule} {{ padding: {rule}px }}\n")));
    text
}

fn script(number: usize) -> String {
    let mut text = String::new();
    (0..200).for_each(|line| text.push_str(&format!("function f{number}_{line}() {{ return {line} }}\n")));
    text.push_str(&format!("document.documentElement.dataset.script{number} = String(f{number}_199());\n"));
    text
}

/// An image of noise, 8 bits for each of red, green and blue. Stored and not compressed: its length follows from its
/// sides, whatever a later compressor would make of it.
fn png(width: u32, height: u32, random: &mut Random) -> Vec<u8> {
    let mut lines = Vec::with_capacity(((width * 3 + 1) * height) as usize);
    for _ in 0..height {
        // The first byte of a line: no filter.
        let start = lines.len() + 1;
        lines.resize(start + width as usize * 3, 0);
        for piece in lines[start..].chunks_mut(8) {
            piece.copy_from_slice(&random.next_u64().to_le_bytes()[..piece.len()]);
        }
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::none());
    // Writing to memory does not fail.
    let packed = packed.write_all(&lines).and_then(|()| packed.finish()).unwrap_or_default();
    let mut head = Vec::new();
    head.extend_from_slice(&width.to_be_bytes());
    head.extend_from_slice(&height.to_be_bytes());
    // Bits, colour type, compression, filter, no interlacing.
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [(b"IHDR", &head), (b"IDAT", &packed), (b"IEND", &Vec::new())] {
        out.extend_from_slice(&(data.len() as u32).to_be_bytes());
        let start = out.len();
        out.extend_from_slice(name);
        out.extend_from_slice(data);
        let sum = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&sum.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_bytes() {
        let options = SiteOptions { images: 9, seed: 7 };
        let site = Site::new(options);
        assert_eq!(site, Site::new(options));
        assert_ne!(site, Site::new(SiteOptions { seed: 8, ..options }));
        let page = &site.get("index.html").unwrap().body;
        let page = String::from_utf8(page.clone()).unwrap();
        for (name, _) in site.resources().filter(|(name, _)| *name != "index.html") {
            assert_eq!(page.matches(&format!("\"{name}\"")).count(), 1, "{name} is named once");
        }
    }

    #[test]
    fn the_usual_page_is_that_of_the_old_tables_on_every_machine() {
        let site = Site::new(SiteOptions::default());
        assert_eq!(site.resources().len(), 460 + 1 + STYLES + SCRIPTS);
        let large = |name| site.get(name).map(|image| image.body.len());
        assert!(large("image-0000.png").unwrap().abs_diff(750_000) < 2_000);
        assert!(large("image-0001.png").unwrap().abs_diff(600_000) < 2_000);
        let all: String = site.resources().map(|(name, resource)| format!("{name} {}\n", resource.etag)).collect();
        assert_eq!((site.bytes(), crc32fast::hash(all.as_bytes())), SAME_EVERYWHERE);
    }

    /// Bytes of all bodies, and a sum of all names and validators.
    const SAME_EVERYWHERE: (u64, u32) = (5_361_706, 778_080_272);

    #[test]
    fn images_are_whole_pngs() {
        let image = png(31, 17, &mut Random::from_seed(3));
        let mut rest = &image[8..];
        let mut names = Vec::new();
        while let Some((head, after)) = rest.split_at_checked(8) {
            let length = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
            assert_eq!(crc32fast::hash(&rest[4..8 + length]).to_be_bytes(), after[length..length + 4]);
            names.push(head[4..].to_vec());
            rest = &after[length + 4..];
        }
        assert_eq!(names, [b"IHDR", b"IDAT", b"IEND"]);
        let mut lines = Vec::new();
        let data = &image[8 + 25 + 8..image.len() - 12 - 4];
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(data), &mut lines).unwrap();
        assert_eq!(lines.len(), 17 * (31 * 3 + 1));
    }
}
