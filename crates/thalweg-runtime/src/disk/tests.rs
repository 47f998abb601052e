//! Robustness of the store: whatever happens to the files, an entry is read back as stored or not at all.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// Separate folder of each test, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("thalweg-disk-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Place(path)
    }

    fn open(&self) -> Cache {
        Cache::open(&self.0).unwrap()
    }

    /// File of an entry.
    fn file(&self, kind: Kind, key: &Key) -> PathBuf {
        self.0.join(kind.name()).join(key.to_string())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(n: u64) -> Key {
    Key::of(&[&n.to_le_bytes()])
}

#[test]
fn what_is_put_is_got_by_kind_and_key() {
    let place = Place::new("round");
    let cache = place.open();
    for payload in [&b""[..], b"x", &[7; 100_000]] {
        cache.put(Kind::Plan, &key(1), payload);
        assert_eq!(cache.get(Kind::Plan, &key(1)).as_deref(), Some(payload));
        assert_eq!(place.open().get(Kind::Plan, &key(1)).as_deref(), Some(payload), "through another opening");
    }
    assert_eq!((cache.get(Kind::Plan, &key(2)), cache.get(Kind::Measured, &key(1))), (None, None));
    cache.put(Kind::Plan, &key(3), &vec![0; MAX_PAYLOAD + 1]);
    assert_eq!(cache.get(Kind::Plan, &key(3)), None);
    assert_ne!(Key::of(&[b"ab", b"c"]), Key::of(&[b"a", b"bc"]));
    assert_eq!(Key::parse(&key(1).to_string()), Some(key(1)));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.0), 0o700);
    assert_eq!(mode(&place.0.join("plan")), 0o700);
    assert_eq!(mode(&place.file(Kind::Plan, &key(1))), 0o600);
}

#[test]
fn no_bit_of_an_entry_can_change_unnoticed() {
    let place = Place::new("bits");
    let (cache, file) = (place.open(), place.file(Kind::Plan, &key(1)));
    cache.put(Kind::Plan, &key(1), b"some bytes");
    let good = fs::read(&file).unwrap();
    for n in 0..good.len() {
        fs::write(&file, &good[..n]).unwrap();
        assert_eq!(cache.get(Kind::Plan, &key(1)), None, "cut off after {n}");
    }
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, &bad).unwrap();
        assert_eq!(cache.get(Kind::Plan, &key(1)), None, "bit {bit}");
    }
    fs::write(&file, [&good[..], b"x"].concat()).unwrap();
    assert_eq!(cache.get(Kind::Plan, &key(1)), None);
    // Written again.
    cache.put(Kind::Plan, &key(1), b"other bytes");
    assert_eq!(cache.get(Kind::Plan, &key(1)).unwrap(), b"other bytes");
}

#[test]
fn random_damage_is_noticed() {
    let place = Place::new("damage");
    let (cache, file) = (place.open(), place.file(Kind::Measured, &key(1)));
    let mut random = Random(1);
    let payload: Vec<u8> = (0..500).map(|_| random.below(256) as u8).collect();
    cache.put(Kind::Measured, &key(1), &payload);
    let good = fs::read(&file).unwrap();
    for _ in 0..3000 {
        let bad = random.damaged(&good);
        fs::write(&file, &bad).unwrap();
        let got = cache.get(Kind::Measured, &key(1));
        assert!(got.is_none() || bad == good && got.as_deref() == Some(&payload));
    }
}

#[test]
fn another_version_format_or_name_is_ignored() {
    let place = Place::new("version");
    let (cache, file) = (place.open(), place.file(Kind::Plan, &key(1)));
    let good = entry::to_bytes(Kind::Plan, &key(1), b"payload");
    // As another version would write it, with a correct checksum.
    let with = |at: usize, bytes: &[u8]| {
        let mut other = good.clone();
        other[at..at + bytes.len()].copy_from_slice(bytes);
        let checksum = blake3::hash(&other[40..]);
        other[8..40].copy_from_slice(checksum.as_bytes());
        other
    };
    cache.put(Kind::Plan, &key(1), b"");
    let cases = [
        (with(48, b"99.9.9\0"), Ignored::Version),
        (with(40, &[9]), Ignored::Format),
        (with(44, &[9]), Ignored::Format),
        (with(0, b"T"), Ignored::NotAnEntry),
        (with(64, &[1, 2, 3]), Ignored::Name),
        (with(44, &[Kind::Measured as u8]), Ignored::Name),
        (with(96, &[200]), Ignored::Length),
    ];
    for (bytes, why) in cases {
        fs::write(&file, bytes).unwrap();
        assert_eq!(cache.get(Kind::Plan, &key(1)), None, "{why}");
        assert_eq!(cache.contents()[0].ignored, [(key(1).to_string(), why)]);
    }
    fs::write(&file, &good).unwrap();
    assert_eq!(cache.get(Kind::Plan, &key(1)).unwrap(), b"payload");
}

#[test]
fn files_that_others_may_have_written_are_ignored() {
    let place = Place::new("owner");
    let (cache, file) = (place.open(), place.file(Kind::Plan, &key(1)));
    let refused = |why: Ignored| {
        assert_eq!(cache.get(Kind::Plan, &key(1)), None, "{why}");
        assert_eq!(cache.contents()[0].ignored, [(key(1).to_string(), why)]);
        // And written again.
        cache.put(Kind::Plan, &key(1), b"payload");
        assert_eq!(cache.get(Kind::Plan, &key(1)).unwrap(), b"payload");
    };
    let permit = |mode: u32| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    cache.put(Kind::Plan, &key(1), b"payload");
    permit(0o620);
    refused(Ignored::Writable);
    permit(0o602);
    refused(Ignored::Writable);
    let away = place.0.join("away");
    fs::rename(&file, &away).unwrap();
    symlink(&away, &file).unwrap();
    refused(Ignored::NotAFile);
    fs::write(&file, vec![0; entry::MAX + 1]).unwrap();
    refused(Ignored::TooLarge);
    fs::remove_file(&file).unwrap();
    let pipe = rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    );
    if pipe.is_ok() {
        refused(Ignored::NotAFile);
    }
    // Only root can change the owner of files.
    if chown(&file, Some(4321), None).is_ok() {
        refused(Ignored::Foreign);
    }
}

#[test]
fn folders_that_others_may_write_to_are_not_used() {
    let place = Place::new("folder");
    drop(place.open());
    let permit = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    permit(&place.0, 0o770);
    assert_eq!(Cache::open(&place.0).unwrap_err(), Ignored::Writable);
    permit(&place.0, 0o755);
    let link = place.0.join("link");
    symlink(&place.0, &link).unwrap();
    assert_eq!(Cache::open(&link).unwrap_err(), Ignored::NotAFile);
    let file = place.0.join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(Cache::open(&file).unwrap_err(), Ignored::NotAFile);
    assert!(Cache::open(&file.join("in-it")).is_err());
    // The folder of one kind is unusable: the cache works, but without that kind.
    fs::create_dir(place.0.join("plan")).unwrap();
    permit(&place.0.join("plan"), 0o777);
    let cache = place.open();
    cache.put(Kind::Plan, &key(1), b"payload");
    cache.put(Kind::Measured, &key(1), b"payload");
    assert_eq!(cache.get(Kind::Plan, &key(1)), None);
    assert!(cache.get(Kind::Measured, &key(1)).is_some());
    if chown(&place.0, Some(4321), None).is_ok() {
        assert_eq!(Cache::open(&place.0).unwrap_err(), Ignored::Foreign);
        chown(&place.0, Some(0), None).unwrap();
    }
}

#[test]
fn a_folder_that_is_gone_or_in_the_way_is_no_error() {
    let place = Place::new("gone");
    let cache = place.open();
    cache.put(Kind::Plan, &key(1), b"payload");
    fs::remove_dir_all(&place.0).unwrap();
    cache.put(Kind::Plan, &key(1), b"payload");
    assert_eq!(cache.get(Kind::Plan, &key(1)), None);
    assert_eq!((cache.clear(), cache.contents().len()), (0, Kind::ALL.len()));
    assert!(cache.export(&mut vec![]).is_ok());
    // A folder in place of the entry.
    let cache = place.open();
    cache.put(Kind::Plan, &key(2), b"payload");
    fs::create_dir(place.file(Kind::Plan, &key(1))).unwrap();
    cache.put(Kind::Plan, &key(1), b"payload");
    assert_eq!(cache.get(Kind::Plan, &key(1)), None);
    assert!(cache.get(Kind::Plan, &key(2)).is_some());
    assert_eq!(fs::read_dir(place.0.join("plan")).unwrap().count(), 2, "nothing unfinished stays behind");
}

#[test]
fn readers_meet_whole_entries_whoever_writes() {
    let place = Place::new("many");
    let keys: Vec<Key> = (0..4).map(key).collect();
    std::thread::scope(|s| {
        for n in 0..8u8 {
            let (place, keys) = (&place, &keys);
            s.spawn(move || {
                let cache = place.open();
                for turn in 0..100 {
                    let key = &keys[turn % keys.len()];
                    cache.put(Kind::Plan, key, &vec![n; 1000 + n as usize]);
                    let got = cache.get(Kind::Plan, key).expect("there is always one");
                    assert!(got.len() == 1000 + got[0] as usize && got.iter().all(|b| *b == got[0]));
                }
            });
        }
    });
    assert_eq!(
        place.open().contents()[0],
        Contents { kind: Kind::Plan, entries: 4, ..place.open().contents()[0].clone() }
    );
    assert!(place.open().contents()[0].ignored.is_empty());
}

#[test]
fn a_cache_of_one_kind_has_nothing_of_the_others() {
    let place = Place::new("only");
    let (all, code) = (place.open(), place.open().with_only(Kind::Code));
    code.put(Kind::Plan, &key(1), b"plan");
    code.put(Kind::Code, &key(1), b"code");
    assert_eq!((all.get(Kind::Plan, &key(1)), all.get(Kind::Code, &key(1))), (None, Some(b"code".to_vec())));
    all.put(Kind::Plan, &key(1), b"plan");
    assert_eq!((code.get(Kind::Plan, &key(1)), code.get(Kind::Code, &key(1))), (None, Some(b"code".to_vec())));
}

#[test]
fn the_oldest_go_where_there_are_too_many() {
    let place = Place::new("sweep");
    let cache = place.open().with_limit(50_000);
    let old = place.0.join("plan").join("new-1-old");
    let day = Duration::from_secs(86_400);
    let age = |path: &Path, by: Duration| {
        fs::File::options().append(true).open(path).unwrap().set_modified(SystemTime::now() - by).unwrap();
    };
    for n in 0..200 {
        cache.put(Kind::Plan, &key(n), &[0; 900]);
        age(&place.file(Kind::Plan, &key(n)), day.saturating_sub(Duration::from_secs(n)));
        if n == 0 {
            fs::write(&old, "never finished").unwrap();
            age(&old, day);
        }
    }
    cache.sweep();
    let contents = &cache.contents()[0];
    assert!((10..50).contains(&contents.entries) && contents.ignored.is_empty(), "{contents:?}");
    assert!(cache.get(Kind::Plan, &key(0)).is_none() && cache.get(Kind::Plan, &key(199)).is_some());
    assert_eq!(cache.clear(), contents.entries);
    assert_eq!(cache.contents()[0].entries, 0);
}

#[test]
fn what_was_exported_can_be_imported() {
    let (one, other) = (Place::new("export"), Place::new("import"));
    let (from, to) = (one.open(), other.open());
    for n in 0..5 {
        from.put(Kind::ALL[n as usize % 3], &key(n), &[n as u8; 50]);
    }
    fs::write(one.file(Kind::Plan, &key(77)), "damaged").unwrap();
    let mut file = vec![];
    assert_eq!(from.export(&mut file).unwrap(), 5);
    assert_eq!(to.import(&mut &file[..]).unwrap(), Imported { entries: 5, ignored: Default::default() });
    for n in 0..5 {
        assert_eq!(to.get(Kind::ALL[n as usize % 3], &key(n)).unwrap(), [n as u8; 50]);
    }
    assert!(to.import(&mut &b"something else"[..]).is_err() && to.import(&mut &b""[..]).is_err());
}

#[test]
fn what_a_program_brings_is_found_behind_the_folder_and_never_written() {
    let place = Place::new("brought");
    let from = Place::new("brings");
    let brings = from.open();
    brings.put(Kind::Plan, &key(1), b"brought");
    brings.put(Kind::Plan, &key(2), b"brought, too");
    let mut file = vec![];
    brings.export(&mut file).unwrap();
    let mut shipped = Shipped::default();
    let imported = transfer::read(&mut &file[..], LIMIT, |kind, key, payload| {
        shipped.insert((kind, key), payload.into());
    });
    assert_eq!(imported.unwrap().entries, 2);
    let own = place.open();
    own.put(Kind::Plan, &key(1), b"own");
    for (before, first) in [(Some(&own), &b"own"[..]), (None, b"brought")] {
        let cache = Cache::with_shipped(before, shipped.clone());
        assert_eq!(cache.get(Kind::Plan, &key(1)).as_deref(), Some(first));
        assert_eq!(cache.get(Kind::Plan, &key(2)).as_deref(), Some(&b"brought, too"[..]));
        assert_eq!(cache.get(Kind::Code, &key(2)), None);
        cache.put(Kind::Plan, &key(3), b"new");
        assert_eq!(cache.get(Kind::Plan, &key(3)).is_some(), before.is_some(), "kept in the folder alone");
        cache.clear();
        assert_eq!(cache.get(Kind::Plan, &key(1)).as_deref(), Some(&b"brought"[..]));
    }
}

#[test]
fn a_hostile_import_stays_in_the_folder() {
    let (one, other) = (Place::new("hostile-from"), Place::new("hostile-to"));
    let (from, to) = (one.open(), other.open());
    for n in 0..6 {
        from.put(Kind::ALL[n as usize % 3], &key(n), &[n as u8; 40]);
    }
    let mut good = vec![];
    from.export(&mut good).unwrap();
    let mut random = Random(2);
    for _ in 0..2000 {
        let mut bad = random.damaged(&good);
        if random.below(4) > 0 {
            let n = bad.len().min(16);
            bad[..n].copy_from_slice(&good[..n]);
        }
        let _ = to.import(&mut &bad[..]);
    }
    // Entries that were read are as stored.
    for n in 0..6 {
        let got = to.get(Kind::ALL[n as usize % 3], &key(n));
        assert!(got.is_none_or(|g| g == [n as u8; 40]));
    }
    let names: usize = Kind::ALL.iter().map(|k| fs::read_dir(other.0.join(k.name())).map_or(0, |d| d.count())).sum();
    assert!(names <= 6 && fs::read_dir(&other.0).unwrap().count() == 3);
    // More than a cache may contain, and a length without data.
    let small = Cache::open(&other.0).unwrap().with_limit(300);
    assert_eq!(small.import(&mut &good[..]).unwrap().ignored[&Ignored::TooLarge], 1);
    let endless = [&good[..16], &u32::MAX.to_le_bytes()].concat();
    assert_eq!(to.import(&mut &endless[..]).unwrap().ignored[&Ignored::TooLarge], 1);
    let short = [&good[..16], &1_000_000u32.to_le_bytes(), &[1, 2, 3]].concat();
    assert_eq!(to.import(&mut &short[..]).unwrap().ignored[&Ignored::Length], 1);
}

#[test]
fn the_environment_says_where() {
    let at = |vars: &[(&str, &str)]| {
        let variable = |name: &str| vars.iter().find(|v| v.0 == name).map(|v| PathBuf::from(v.1));
        let asked = variable("THALWEG_CACHE").map(PathBuf::into_os_string);
        place_of(crate::environment::CACHE.parse(asked.as_deref()).unwrap(), variable)
    };
    assert_eq!(at(&[("HOME", "/h")]), Some("/h/.cache/thalweg".into()));
    assert_eq!(at(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/thalweg".into()));
    assert_eq!(at(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]), Some("/h/.cache/thalweg".into()));
    assert_eq!(at(&[("THALWEG_CACHE", "./here"), ("HOME", "/h")]), Some("./here".into()));
    assert_eq!(at(&[("THALWEG_CACHE", "Off"), ("HOME", "/h")]), None);
    assert_eq!(at(&[]), None);
}

/// Pseudo-random numbers: an LCG.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// Bytes with some of them changed, moved, removed or inserted.
    fn damaged(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let n = out.len();
            if n < 2 {
                break;
            }
            let (a, b) = (self.below(n), self.below(n));
            let (a, b) = (a.min(b), a.max(b));
            match self.below(6) {
                0 => out[a] ^= 1 << self.below(8),
                1 => out[a] = self.below(256) as u8,
                2 => out.truncate(b.max(1)),
                3 => drop(out.drain(a..b)),
                4 => out.insert(a, self.below(256) as u8),
                _ => out.swap(a, b),
            }
        }
        out
    }
}
