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

// isDataError reports whether the server said that these very values will never be accepted; only then a row may go to
// the dead letters. Everything else is repeated for ever: memory (241), too many parts (252), timeouts (159, 160, 209),
// network (210), and also a table whose columns do not fit (16, 53, 60), which would refuse every row and which an
// operator can mend.
func isDataError(err error) bool {
	exception, ok := errors.AsType[*clickhouse.Exception](err)
	if !ok {
		return false
	}
	switch exception.Code {
	case 69, // ARGUMENT_OUT_OF_BOUND
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
