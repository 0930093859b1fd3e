module conclave.dev/conclaveclock

go 1.24
