// Package ledger keeps the Merkle tree over all sealed events of a shard, and signs its head.
//
// A leaf is the hash of a sealed event, SHA-256(0x00 ‖ sealed bytes), in the order of the stream; that is the tree of RFC
// 6962. Its hashes lie in tiles of height 8, in the files that clients of C2SP tlog-tiles read:
//
//	<dir>/checkpoint                     the newest head, a signed note (C2SP tlog-checkpoint)
//	<dir>/tile/<level>/<index>           256 hashes
//	<dir>/tile/<level>/<index>.p/<width> fewer than 256, as of some checkpoint
//
// Order of writing: tiles are synced, then the head over them is signed and synced. What lies beyond the newest head was
// never promised, and is written again, equal, after a crash.
package ledger
