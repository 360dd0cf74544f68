//! What starts need, told by an older image of the directory. After an upgrade recordings no longer fit, but most of
//! what a start needs still lies in files of the same names.

use crate::format::BLOCK;
use crate::order::Need;
use crate::read::{Contents, Image, Piece, Read};
use crate::tree::Tree;
use model::Bytes;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Two starts stand for those that the older image was made of: one needed what all did, the other what any did.
pub const STARTS: [u32; 2] = [0, 1];

/// What an older image has in front.
#[derive(Debug, Default)]
pub struct Older {
    /// As pages of the files that have these names now.
    pub needs: Vec<Need>,
    /// Names of files in front of which there is none any more.
    pub lost: BTreeSet<PathBuf>,
}

/// What starts need of the files in `now`, as far as the older image tells: up to `by_all` lies what all needed, up to
/// `start` what any did ([`crate::about::About`]). Of a file that has another size now the same share is taken, which
/// is a guess: what an upgrade moved in it nobody has seen.
///
/// # Errors
/// An index of the image is damaged.
pub fn needs((by_all, start): (Bytes, Bytes), image: &Image<'_>, contents: &Contents, now: &Tree) -> Read<Older> {
    let names = now.by_name();
    let mut older = Older::default();
    for (number, node) in contents.tree.nodes.iter().enumerate().filter(|(_, node)| node.is_file()) {
        let pieces = image.pieces(contents, number)?;
        let ends = |piece: &Piece| (piece.block + piece.blocks()) * BLOCK;
        for piece in pieces.iter().filter(|piece| ends(piece) <= start.0) {
            let Some(file) = names.get(&node.path).copied().filter(|file| now.nodes[*file].is_file()) else {
                older.lost.insert(node.path.clone());
                break;
            };
            let (was, is) = (node.size.div_ceil(BLOCK), now.nodes[file].size.div_ceil(BLOCK));
            let scaled = |page: u64| (u128::from(page) * u128::from(is), u128::from(was));
            let (from, to) = (scaled(piece.page), scaled(piece.page + piece.pages));
            let (page, end) = ((from.0 / from.1) as u64, to.0.div_ceil(to.1) as u64);
            let starts = if ends(piece) <= by_all.0 { &STARTS[..] } else { &STARTS[1..] };
            let need = Need { start: 0, file, page, pages: end.min(is).saturating_sub(page), first: piece.block };
            older.needs.extend(starts.iter().map(|start| Need { start: *start, ..need }));
        }
    }
    older.needs.retain(|need| need.pages > 0);
    Ok(older)
}
