//! Writes an archive in the OCI image layout.
//!
//! Source: *OCI Image Format Specification* 1.1, "Image Layout", "Image Manifest" and
//! "Image Configuration".

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cache::hex;

/// An image of one layer.
#[derive(Clone, Debug)]
pub struct Image {
    /// The full reference under which a container engine is to know it.
    pub name: String,
    /// The program that a container runs if its pod does not say.
    pub entrypoint: Vec<String>,
    /// User and group, numeric, so that `runAsNonRoot` can be checked.
    pub user: String,
    /// What is in it.
    pub content: Content,
}

/// The files of an image.
#[derive(Clone, Debug)]
pub enum Content {
    /// Programs by their path in the image; each is executable, and there is nothing else.
    Programs(BTreeMap<String, PathBuf>),
    /// A whole root directory, as a tar archive.
    Root(PathBuf),
}

impl Image {
    /// Writes the archive to `path`. The same content makes the same bytes.
    pub fn write(&self, path: &Path) -> Result<()> {
        let compressed = path.with_extension("layer");
        let written = self.write_with_layer(path, &compressed);
        fs::remove_file(&compressed).or_else(gone_is_fine)?;
        written.with_context(|| format!("cannot write the image {}", self.name))
    }

    fn write_with_layer(&self, path: &Path, compressed: &Path) -> Result<()> {
        let layer = self.content.compress(compressed)?;
        let config = serde_json::to_vec(&self.config(&layer))?;
        let manifest = serde_json::to_vec(&manifest(&config, &layer))?;
        let index = serde_json::to_vec(&self.index(&manifest))?;

        let mut archive = tar::Builder::new(File::create(path)?);
        append(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        append(&mut archive, "index.json", &index)?;
        append(&mut archive, &blob_path(&digest(&manifest)), &manifest)?;
        append(&mut archive, &blob_path(&digest(&config)), &config)?;
        let blob = File::open(compressed)?;
        let mut header = header(layer.size, 0o644);
        archive.append_data(&mut header, blob_path(&layer.digest), blob)?;
        archive.into_inner()?.flush()?;
        Ok(())
    }

    fn config(&self, layer: &Layer) -> Value {
        json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "User": self.user,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            },
            "rootfs": { "type": "layers", "diff_ids": [layer.diff_id] },
        })
    }

    fn index(&self, manifest: &[u8]) -> Value {
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{
                "mediaType": MANIFEST,
                "digest": digest(manifest),
                "size": manifest.len(),
                "platform": { "architecture": "amd64", "os": "linux" },
                // The first is containerd's, the second the specification's, which has only a tag.
                "annotations": {
                    "io.containerd.image.name": self.name,
                    "org.opencontainers.image.ref.name": tag(&self.name),
                },
            }],
        })
    }
}

impl Content {
    /// Writes the gzipped layer to `path`.
    fn compress(&self, path: &Path) -> Result<Layer> {
        let mut compressed = Hashing::new(File::create(path)?);
        let mut tarred = Hashing::new(GzEncoder::new(&mut compressed, Compression::fast()));
        match self {
            Self::Programs(programs) => append_programs(&mut tarred, programs)?,
            Self::Root(archive) => {
                io::copy(&mut File::open(archive)?, &mut tarred)?;
            }
        }
        let (encoder, diff_id, _) = tarred.finish();
        encoder.finish()?;
        let (_, digest, size) = compressed.finish();
        Ok(Layer { diff_id, digest, size })
    }
}

/// What the configuration and the manifest say of a layer.
struct Layer {
    diff_id: String,
    digest: String,
    size: u64,
}

/// A writer that counts and hashes what goes through it.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Hashing<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), size: 0 }
    }

    fn finish(self) -> (W, String, u64) {
        (self.inner, format!("sha256:{}", hex(&self.hash.finalize())), self.size)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn append_programs(out: &mut impl Write, programs: &BTreeMap<String, PathBuf>) -> Result<()> {
    let mut layer = tar::Builder::new(out);
    for (path, program) in programs {
        let mut file =
            File::open(program).with_context(|| format!("cannot open {}", program.display()))?;
        let size = file.seek(io::SeekFrom::End(0))?;
        file.rewind()?;
        let within = path.trim_start_matches('/');
        layer.append_data(&mut header(size, 0o755), within, file.take(size))?;
    }
    layer.into_inner()?;
    Ok(())
}

fn append(archive: &mut tar::Builder<File>, path: &str, content: &[u8]) -> Result<()> {
    archive.append_data(&mut header(content.len() as u64, 0o644), path, content)?;
    Ok(())
}

/// Owned by root and of no date, so that the bytes depend on nothing but the content.
fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn manifest(config: &[u8], layer: &Layer) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest(config),
            "size": config.len(),
        },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": layer.digest,
            "size": layer.size,
        }],
    })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn tag(name: &str) -> &str {
    name.rsplit_once(':').map_or("latest", |(_, tag)| tag)
}

fn gone_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(archive: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(File::open(archive).unwrap());
        let read = |entry: io::Result<tar::Entry<'_, File>>| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), bytes)
        };
        archive.entries().unwrap().map(read).collect()
    }

    fn image(dir: &Path) -> Image {
        let program = dir.join("program");
        fs::write(&program, "binary").unwrap();
        Image {
            name: "example.test/thing:1".into(),
            entrypoint: vec!["/thing".into()],
            user: "65532:65532".into(),
            content: Content::Programs([("/thing".into(), program)].into()),
        }
    }

    #[test]
    fn every_reference_leads_to_a_blob_of_that_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image.tar");
        image(dir.path()).write(&path).unwrap();

        let files = entries(&path);
        let blob = |descriptor: &Value| {
            let blob = &files[&blob_path(descriptor["digest"].as_str().unwrap())];
            assert_eq!(descriptor["digest"], digest(blob));
            assert_eq!(descriptor["size"], blob.len());
            blob.clone()
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        let layer = blob(&manifest["layers"][0]);

        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&layer[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], digest(&unpacked));
        let mut within = tar::Archive::new(&unpacked[..]);
        let entry = within.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap(), Path::new("thing"));
        assert_eq!(entry.header().mode().unwrap(), 0o755);
    }

    #[test]
    fn the_same_programs_make_the_same_bytes_and_leave_nothing_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one.tar", "two.tar"].map(|name| dir.path().join(name));
        image(dir.path()).write(&one).unwrap();
        image(dir.path()).write(&two).unwrap();
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
