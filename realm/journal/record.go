package journal

import (
	"realm.dev/contract"
	"realm.dev/internal/private"
)

// WriteRecord makes r the record in the session's directory dir, on disk when
// it returns.
func WriteRecord(dir string, r contract.SessionRecord) error {
	return write(dir, RecordName, contract.MaxRecordBytes, r)
}

// ReadRecord returns the record in the session's directory dir. One that is
// not whole, not of this version, not ours or open to others is refused by
// name: SCHEMA_INVALID, PATH_REFUSED or LIMIT_EXCEEDED; none is SESSION_NOT_FOUND.
func ReadRecord(dir string) (contract.SessionRecord, error) {
	return read[contract.SessionRecord](dir, RecordName, contract.MaxRecordBytes)
}

// WriteDetail makes d the detail in the session's directory dir.
func WriteDetail(dir string, d contract.SessionDetail) error {
	return write(dir, DetailName, contract.MaxDetailBytes, d)
}

// ReadDetail returns the detail in the session's directory dir, as ReadRecord
// does the record.
func ReadDetail(dir string) (contract.SessionDetail, error) {
	return read[contract.SessionDetail](dir, DetailName, contract.MaxDetailBytes)
}

func write[T contract.Document](dir, name string, limit int, document T) error {
	b, err := contract.Encode(document)
	if err != nil {
		return err
	}
	if b = append(b, '\n'); len(b) > limit {
		return contract.Errorf(contract.LimitExceeded, "%s has more than %d bytes", name, limit)
	}
	d, err := private.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Replace(name, b)
}

func read[T contract.Document](dir, name string, limit int64) (T, error) {
	var none T
	d, err := private.OpenDir(dir)
	if err != nil {
		return none, notFound(name, err)
	}
	defer d.Close()
	b, err := d.Read(name, limit)
	if err != nil {
		return none, notFound(name, err)
	}
	document, err := contract.Decode[T](b)
	if err != nil {
		return none, named(name, err)
	}
	return document, nil
}

// notFound turns a missing file into a missing session.
func notFound(name string, err error) error {
	if contract.CodeOf(err) != contract.PathNotFound {
		return err
	}
	return contract.Errorf(contract.SessionNotFound, "there is no %s", name).WithCause(err)
}

// named says which file does not match.
func named(name string, err error) error {
	e := *contract.AsError(err)
	if e.Detail != "" {
		e.Detail = ": " + e.Detail
	}
	e.Detail = name + " is not valid" + e.Detail
	return &e
}
