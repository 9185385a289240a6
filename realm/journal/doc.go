// Package journal keeps what must last of a session, in the session's own
// directory: the journal itself (journal.ndjson) and the current record and
// detail (record.json, detail.json).
//
// The journal is append-only NDJSON. Each line has a number and holds the
// SHA-256 of the line before, so that an edit, a gap and, against a hash that
// was told to somebody, a cut tail are found. A line that a crash cut short is
// taken away when the journal is opened again; whole lines never are. Only
// [contract.AuditEntry] can be appended: it has no field for content,
// environment or argument text, so secrets have no way in.
//
// The record and the detail are replaced whole: a reader sees the old one or
// the new one.
package journal
