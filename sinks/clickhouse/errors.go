package clickhouse

import (
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2"
)

var (
	// ErrTooOld is returned when the server is older than [MinVersion]: update it.
	ErrTooOld = errors.New("the ClickHouse server is too old")
	// ErrMigrationChanged is returned when the database records another checksum for a migration than this program
	// ships: the database was made by another build. Use that build, or an empty database.
	ErrMigrationChanged = errors.New("a shipped migration was changed")
	// ErrNewerSchema is returned when the database has migrations that this program does not know: update chaintrail.
	ErrNewerSchema = errors.New("the database was migrated by a newer chaintrail")
)

// dataErrors are the server's codes that mean: these rows will never be accepted. Everything else is repeated: memory
// (241), too many parts (252), timeouts (159, 160, 209), network (210), missing tables and rights, which an operator can mend.
func isDataError(err error) bool {
	if errors.Is(err, errRows) {
		return true
	}
	exception, ok := errors.AsType[*clickhouse.Exception](err)
	if !ok {
		return false
	}
	switch exception.Code {
	case 6, // CANNOT_PARSE_TEXT
		33,  // CANNOT_READ_ALL_DATA
		53,  // TYPE_MISMATCH
		69,  // ARGUMENT_OUT_OF_BOUND
		70,  // CANNOT_CONVERT_TYPE
		117, // INCORRECT_DATA
		131, // TOO_LARGE_STRING_SIZE
		321, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
		349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
		469, // VIOLATED_CONSTRAINT
		691: // UNKNOWN_ELEMENT_OF_ENUM
		return true
	default:
		return false
	}
}

// errRows marks rows that the client could not encode.
var errRows = errors.New("rows do not fit the table")
