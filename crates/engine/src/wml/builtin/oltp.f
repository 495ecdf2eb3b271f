# A database: 200 readers of random blocks, ten writers of blocks and one writer of the log, which wait for each other.
# Strata's own text with the parameters of filebench's oltp.
set $dir=/tmp
set $nshadows=200
set $ndbwriters=10
set $nfiles=10
set $filesize=10m
set $nlogfiles=1
set $logfilesize=10m
set $dirwidth=1024
set $iosize=2k
set $logiosize=256k
set $usermode=200000
set $memperthread=1m
set $eventrate=0

eventgen rate=$eventrate

define fileset name=datafiles,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$dirwidth,prealloc=100,reuse
define fileset name=logfile,path=$dir,entries=$nlogfiles,size=$logfilesize,dirwidth=$dirwidth,prealloc=100,reuse

define process name=lgwr,instances=1 {
  thread name=lgwr,memsize=$memperthread {
    flowop aiowrite name=lg-write,filesetname=logfile,iosize=$logiosize,random,dsync
    flowop aiowait name=lg-aiowait
    flowop semblock name=lg-block,value=3200,highwater=1000
  }
}

define process name=dbwr,instances=$ndbwriters {
  thread name=dbwr,memsize=$memperthread {
    flowop aiowrite name=dbwrite-a,filesetname=datafiles,iosize=$iosize,iters=100,random,dsync,opennext
    flowop hog name=dbwr-hog,value=10000
    flowop semblock name=dbwr-block,value=1000,highwater=2000
    flowop aiowait name=dbwr-aiowait
  }
}

define process name=shadow,instances=$nshadows {
  thread name=shadow,memsize=$memperthread {
    flowop read name=shadowread,filesetname=datafiles,iosize=$iosize,random,opennext
    flowop hog name=shadowhog,value=$usermode
    flowop sempost name=shadow-post-lg,value=1,target=lg-block,blocking
    flowop sempost name=shadow-post-dbwr,value=1,target=dbwr-block,blocking
    flowop eventlimit name=random-rate
  }
}

run 60
